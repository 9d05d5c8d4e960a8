#!/usr/bin/env python3
"""Forecasts of `cagey fit` and `cagey forecast` beside SARIMAX and ETS of statsmodels (requirements-series.txt).

    python3 forecasts.py target/release/cagey TABLE.csv PERIOD [TABLE.csv PERIOD]... [-- OPTIONS OF FIT]

Of each table (dates, then values) 60, 70 and 80 % of the rows are trained on, and the next 20 % forecast. SARIMAX is
(1,1,1)(0,1,1), ETS additive with a damped trend, each of levels and of logarithms. Printed are RMSE, negative log
density, and the share of 95 % intervals that hold; of logarithms, point forecasts are medians, and densities are those
of the level.
"""
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from statsmodels.tsa.statespace.sarimax import SARIMAX

warnings.filterwarnings("ignore")


def normal(test, mean, sd, log):
    """RMSE, negative log density and coverage of normal forecasts of levels or of logarithms."""
    y = np.log(test) if log else test
    density = -0.5 * np.log(2 * np.pi) - np.log(sd) - 0.5 * ((y - mean) / sd) ** 2 - (np.log(test) if log else 0.0)
    point = np.exp(mean) if log else mean
    return np.sqrt(np.mean((point - test) ** 2)), -density.mean(), np.mean(np.abs(y - mean) <= 1.96 * sd)


def peers(train, test, period):
    """Scores by name."""
    for log in (False, True) if (train > 0).all() else (False,):
        z = pd.Series(np.log(train) if log else train)
        sarimax = SARIMAX(z.to_numpy(), order=(1, 1, 1), seasonal_order=(0, 1, 1, period)).fit(disp=0, maxiter=100)
        ahead = sarimax.get_forecast(len(test))
        yield "SARIMAX" + " log" * log, normal(test, ahead.predicted_mean, ahead.se_mean, log)
        ets = ETSModel(z, error="add", trend="add", damped_trend=True, seasonal="add", seasonal_periods=period)
        ahead = ets.fit(disp=0).get_prediction(start=len(z), end=len(z) + len(test) - 1)
        sd = np.sqrt(np.asarray(ahead.forecast_variance))
        yield "ETS" + " log" * log, normal(test, np.asarray(ahead.predicted_mean), sd, log)


def cagey(command, train, test, folder, options):
    """Scores of the command, and seconds; the density is that of `cagey evaluate`."""
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    began = time.time()
    run = lambda *arguments: subprocess.run(
        [command, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    run("fit", "train.csv", "-o", "m.cagey", *options)
    run("forecast", "m.cagey", "--horizon", str(len(test)), "-o", "ahead.csv")
    seconds = time.time() - began
    ahead, y = pd.read_csv(folder / "ahead.csv"), test.iloc[:, -1].to_numpy(float)
    assert list(ahead.iloc[:, 0].astype(str)) == list(test.iloc[:, 0].astype(str)), "other dates"
    scores = json.loads(run("evaluate", "m.cagey", "test.csv", "--json"))
    held = np.mean((ahead.lower <= y) & (y <= ahead.upper))
    return (np.sqrt(np.mean((ahead["mean"] - y) ** 2)), scores["nlpd"], held), seconds


def main():
    arguments = sys.argv[1:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    (command, *tables), options = arguments[:at], arguments[at + 1 :]
    for path, period in zip(tables[::2], map(int, tables[1::2])):
        table = pd.read_csv(path, dtype={0: str})
        for share in (0.6, 0.7, 0.8):
            k, h = round(len(table) * share), round(len(table) * 0.2)
            train, test = table[:k], table[k : k + h]
            with tempfile.TemporaryDirectory() as folder:
                own, seconds = cagey(Path(command).resolve(), train, test, Path(folder), options)
            values = [part.iloc[:, -1].to_numpy(float) for part in (train, test)]
            others = list(peers(*values, period))
            best = min(score[0] for _, score in others)
            said = [f"{name} {s[0]:.2f} / {s[1]:.2f} / {s[2]:.0%}" for name, s in [("cagey", own), *others]]
            print(f"{Path(path).stem} {share:.0%}: {own[0] / best:.2f} of the best, {seconds:.0f} s; {'; '.join(said)}")
            sys.stdout.flush()


main()
