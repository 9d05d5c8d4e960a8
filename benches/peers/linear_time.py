#!/usr/bin/env python3
"""Objective with gradient of models in linear time: cagey, celerite2, tinygp and GPJax (requirements-linear-time.txt).

    taskset -c 0 python3 linear_time.py target/release/examples/workload [--only CASE,CASE] [--rounds 5]

Double precision, one thread. All compute on the same sorted times, 1.25 lengthscales apart on average, at
the same parameters; the gradient is that of all of them, with the mean and the noise. Each round starts every library
once, one after the other. The peers are compiled and run once before they are timed; a library's time in a round is the
median of its repetitions. Printed are medians over rounds: seconds of wall and of processor, the peak memory of the
process, and the largest relative difference of a value from cagey's.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median

import numpy as np

# Of `season`: two states of the trend, one constant and six harmonics, which is where cagey cuts this lengthscale off.
CASES = {
    "matern32": "matern32(lengthscale=1, variance=1)",
    "season": "matern32(lengthscale=1, variance=1) + periodic(period=7, lengthscale=2, variance=1)",
}
HARMONICS, NOISE = 6, 0.1
SIZES = {"matern32": (10_000, 100_000, 1_000_000), "season": (100_000,)}
START = {"trend": (1.0, 1.0), "season": (7.0, 2.0, 1.0), "noise": NOISE, "mean": 0.0}


def weights(jnp, lengthscale):
    """exp(-z) I_0(z) and 2 exp(-z) I_j(z) for z = 1/lengthscale^2, by their series."""
    from math import factorial

    z = 1 / lengthscale**2
    series = lambda j: sum((z / 2) ** (2 * m + j) / float(factorial(m) * factorial(m + j)) for m in range(15))
    return [(1.0 if j == 0 else 2.0) * jnp.exp(-z) * series(j) for j in range(HARMONICS + 1)]


def celerite2(jax, jnp, case, x):
    from celerite2.jax import GaussianProcess, terms

    def value(p, y):
        # Its Matern-3/2 is the limit of a damped wave; the error falls with the square of eps.
        kernel = terms.Matern32Term(sigma=jnp.sqrt(p["trend"][1]), rho=p["trend"][0], eps=1e-5)
        if case == "season":
            period, lengthscale, variance = p["season"]
            constant, *waves = weights(jnp, lengthscale)
            kernel += terms.RealTerm(a=variance * constant, c=0.0)
            for j, weight in enumerate(waves, 1):
                kernel += terms.ComplexTerm(a=variance * weight, b=0.0, c=0.0, d=2 * jnp.pi * j / period)
        process = GaussianProcess(kernel, mean=p["mean"])
        process.compute(x, diag=jnp.full_like(x, p["noise"]), check_sorted=False)
        return -process.log_likelihood(y)

    return value


def tinygp(jax, jnp, case, x):
    from tinygp import GaussianProcess
    from tinygp.kernels import quasisep

    def value(p, y):
        kernel = quasisep.Matern32(scale=p["trend"][0], sigma=jnp.sqrt(p["trend"][1]))
        if case == "season":
            period, lengthscale, variance = p["season"]
            constant, *waves = weights(jnp, lengthscale)
            kernel += quasisep.Exp(scale=1e16, sigma=jnp.sqrt(variance * constant))
            for j, weight in enumerate(waves, 1):
                kernel += quasisep.Cosine(scale=period / j, sigma=jnp.sqrt(variance * weight))
        process = GaussianProcess(kernel, x, diag=p["noise"], mean=p["mean"], assume_sorted=True)
        return -process.log_probability(y)

    return value


def gpjax(jax, jnp, case, x):
    import gpjax as gpx
    from gpjax.state_space import StateSpacePrior, TruncatedPeriodic, state_space_mll

    def value(p, y):
        kernel = gpx.kernels.Matern32(lengthscale=p["trend"][0], variance=p["trend"][1])
        if case == "season":
            period, lengthscale, variance = p["season"]
            # Its periodic kernel has a lengthscale of half the size.
            kernel += TruncatedPeriodic(
                lengthscale=lengthscale / 2, variance=variance, period=period, truncation_order=HARMONICS
            )
        prior = StateSpacePrior(kernel=kernel, mean_function=gpx.mean_functions.Constant(p["mean"]), jitter=0.0)
        model = prior * gpx.likelihoods.Gaussian(obs_stddev=jnp.sqrt(p["noise"]))
        return -state_space_mll(model, gpx.Dataset(X=x[:, None], y=y[:, None]))

    return value


PEERS = {"celerite2": celerite2, "tinygp": tinygp, "gpjax": gpjax}


def child(peer, case, prefix, reps):
    """Times a peer in this process, and prints JSON."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platform_name", "cpu")
    import jax.numpy as jnp

    x, y = (jnp.asarray(np.load(f"{prefix}-{name}.npy")) for name in "Xy")
    step = jax.jit(jax.value_and_grad(PEERS[peer](jax, jnp, case, x)))
    start = jax.tree.map(jnp.asarray, START if case == "season" else {**START, "season": ()})
    run = lambda: jax.block_until_ready(step(start, y))
    run()
    walls, processor = [], time.process_time()
    for _ in range(reps):
        began = time.perf_counter()
        value, _gradient = run()
        walls.append(time.perf_counter() - began)
    processor = (time.process_time() - processor) / reps
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"value": float(value), "wall": median(walls), "cpu": processor, "memory": memory}))


def cagey(command, model, case, prefix, reps, n):
    """The workload's figures; processor time is that of the whole process, divided by all repetitions."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [model, "--data", prefix, "--dtype", "f64", "--threads", "1", "--expression", CASES[case]]
    out = json.loads(subprocess.run([command, *arguments, "--reps", str(reps)], check=True, capture_output=True).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall, memory = out["median_s"], out["peak_rss_mb"]
    return {"value": out["loss"] * n, "wall": wall, "cpu": processor / (reps + 1), "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload")
    parser.add_argument("--only", default="", help="such as matern32-10000,season-100000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--no-dense", action="store_true", help="without the dense model, of 10,000 rows")
    a = parser.parse_args()
    for case, n in [(case, n) for case, sizes in SIZES.items() for n in sizes]:
        if a.only and f"{case}-{n}" not in a.only.split(","):
            continue
        rng = np.random.default_rng(0)
        x = np.cumsum(rng.uniform(0.5, 2.0, n))
        y = np.sin(x / 3) + (np.cos(2 * np.pi * x / 7) if case == "season" else 0.0) + 0.3 * rng.normal(size=n)
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "rows")
            np.save(f"{prefix}-X.npy", x)
            np.save(f"{prefix}-y.npy", y)
            reps = max(3, 300_000 // n)
            for turn in range(a.rounds):
                found.setdefault("cagey", []).append(cagey(a.workload, "state-space", case, prefix, reps, n))
                if n <= 10_000 and turn == 0 and not a.no_dense:
                    found["dense"] = [cagey(a.workload, "exact", case, prefix, 1, n)]
                for peer in a.peers:
                    command = [sys.executable, __file__, "--child", peer, case, prefix, str(max(3, reps // 3))]
                    run = subprocess.run(command, capture_output=True, text=True)
                    if run.returncode == 0:
                        found.setdefault(peer, []).append(json.loads(run.stdout.splitlines()[-1]))
                    else:
                        said = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[-1]
                        print(f"{case} {n}: {peer} failed: {said}", flush=True)
        for name, runs in found.items():
            wall, cpu, memory = (median(run[key] for run in runs) for key in ("wall", "cpu", "memory"))
            away = max(abs(run["value"] / found["cagey"][0]["value"] - 1) for run in runs)
            figures = f"{wall:.4g} s, processor {cpu:.4g} s, {memory:.0f} MB, off by {away:.1e}"
            print(f"{case} {n} {name}: {figures}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5], int(sys.argv[5]))
    else:
        main()
