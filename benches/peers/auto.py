#!/usr/bin/env python3
"""`--kernel auto` beside the default of `cagey fit`: negative log density of held-out rows, and seconds.

    python3 auto.py target/release/cagey FOLDER SEEDS NAME [NAME]...

Of each table FOLDER/NAME.csv.gz, whose last column is the target, at most 400 rows are drawn, and a fifth of them is
held out, for each seed from 0 on; printed are means over the seeds. One thread; nothing but numpy and pandas is needed.
"""
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd


def scores(command, table, seed):
    """Negative log density and seconds, of the default and of `auto`."""
    order = np.random.default_rng(seed).permutation(len(table))[:400]
    held = len(order) // 5
    with tempfile.TemporaryDirectory() as work:
        run = lambda *arguments: subprocess.run(
            [Path(command).resolve(), *arguments, "--threads", "1", "--json"],
            cwd=work, check=True, capture_output=True, text=True,
        ).stdout
        table.iloc[order[held:]].to_csv(f"{work}/train.csv", index=False)
        table.iloc[order[:held]].to_csv(f"{work}/test.csv", index=False)
        for options in ([], ["--kernel", "auto"]):
            began = time.time()
            run("fit", "train.csv", "--target", table.columns[-1], "-o", "m.cagey", *options)
            seconds = time.time() - began
            yield from (json.loads(run("evaluate", "m.cagey", "test.csv"))["nlpd"], seconds)


def main():
    command, folder, seeds, *names = sys.argv[1:]
    for name in names:
        table = pd.read_csv(Path(folder) / f"{name}.csv.gz")
        all = np.array([list(scores(command, table, seed)) for seed in range(int(seeds))])
        (default, before, auto, after), differences = all.mean(axis=0), all[:, 2] - all[:, 0]
        each = " ".join(f"{difference:+.3f}" for difference in differences)
        said = f"{default:.3f} in {before:.0f} s, auto {auto:.3f} in {after:.0f} s, {each}"
        print(f"{name} ({table.shape[1] - 1}): {said}", flush=True)


main()
