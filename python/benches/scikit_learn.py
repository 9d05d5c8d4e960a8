"""Compares with scikit-learn's Gaussian processes on the same rows and kernels: seconds, memory, scores.

    python python/benches/scikit_learn.py [rows of the largest table]

Each fit runs in a process of its own with one thread; memory is its peak above that of the imports.
"""

import json
import os
import resource
import subprocess
import sys
import time
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CAGEY_THREADS"):
    os.environ[name] = "1"

import numpy as np
from scipy.stats import norm
from sklearn import datasets
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from cagey import GPClassifier, GPRegressor, Objective

warnings.simplefilter("ignore")


def table(name):
    """Training and held-out rows, standardised."""
    if name.startswith("waves"):
        rng = np.random.default_rng(0)
        n = int(name.split()[1])
        X = rng.normal(size=(n + 500, 4))
        y = np.sin(2 * X[:, 0]) + X[:, 1] * np.cos(X[:, 2]) + 0.2 * rng.normal(size=len(X))
        parts = X[:n], X[n:], y[:n], y[n:]
    else:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        parts = train_test_split(X, y, test_size=0.3, random_state=0)
    X, X_test, y, y_test = parts
    scale = StandardScaler().fit(X)
    if len(np.unique(y)) > 10:
        y, y_test = (y - y.mean()) / y.std(), (y_test - y.mean()) / y.std()
    return scale.transform(X), scale.transform(X_test), y, y_test


def kernel(d, noise=True):
    own = ConstantKernel(1.0, (1e-5, 1e5)) * RBF(np.ones(d), (1e-3, 1e5))
    return own + WhiteKernel(0.1, (1e-6, 1e2)) if noise else own


def fitted(which, X, y):
    d, classes = X.shape[1], len(np.unique(y)) <= 10
    if which == "scikit-learn":
        if classes:
            return GaussianProcessClassifier(kernel(d, False)).fit(X, y)
        return GaussianProcessRegressor(kernel(d), alpha=0).fit(X, y)
    own = {"cagey, same kernel": "rbf(ard)", "cagey, default": None}[which]
    return (GPClassifier(own) if classes else GPRegressor(own)).fit(X, y)


def run(name, which):
    X, X_test, y, y_test = table(name)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    model = fitted(which, X, y)
    seconds = time.perf_counter() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    if hasattr(model, "classes_"):
        score, coverage = log_loss(y_test, model.predict_proba(X_test)), model.score(X_test, y_test)
    else:
        mean, sd = model.predict(X_test, return_std=True)
        score = -norm.logpdf(y_test, mean, sd).mean()
        ends = model.predict_interval(X_test).T if "cagey" in which else (mean - 1.96 * sd, mean + 1.96 * sd)
        coverage = np.mean((ends[0] < y_test) & (y_test < ends[1]))
        if "cagey" in which:
            text = json.loads(model.model_.evaluate(X_test, np.ascontiguousarray(y_test))[1])
            score = text["nlpd"]
    print(json.dumps([seconds, memory, score, coverage]))


def once(n):
    """Seconds of one evaluation of the objective with its gradient, the best of three."""
    X, _, y, _ = table(f"waves {n}")
    other = GaussianProcessRegressor(kernel(4), alpha=0, optimizer=None).fit(X[:, :], y)
    theta = other.kernel_.theta
    objective = Objective(GPRegressor("rbf(ard)", mean="zero"), X, y)
    calls = {
        "scikit-learn": lambda: other.log_marginal_likelihood(theta, eval_gradient=True),
        "cagey": lambda: objective(objective.theta),
    }
    for name, call in calls.items():
        times = []
        for _ in range(3):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        print(f"one evaluation with its gradient, {n} rows, 4 columns, {name}: {min(times):.3f} s")


def single():
    """Microseconds of one row."""
    X, _, y, _ = table("waves 1000")
    other = GaussianProcessRegressor(kernel(4), alpha=0, optimizer=None).fit(X, y)
    own = GPRegressor("rbf(ard)", options={"steps": 5}, starts="data").fit(X, y)
    row = np.ascontiguousarray(X[:1])
    calls = {
        "scikit-learn, predict": lambda: other.predict(row),
        "cagey, predict": lambda: own.predict(row),
        "cagey, native module": lambda: own.model_.mean(row),
    }
    for name, call in calls.items():
        times = []
        for _ in range(2000):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        print(f"one row of 1000: {name}: {1e6 * np.median(times):.0f} µs")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run(*sys.argv[1:])
    else:
        most = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
        single()
        once(1000)
        once(2000)
        print("| table | rows | by | seconds | MB | NLPD or log loss | in 95 % or accuracy |\n|---|---|---|---|---|---|---|")
        for name in ["diabetes", f"waves {most}", "iris", "breast_cancer"]:
            for which in ["scikit-learn", "cagey, same kernel", "cagey, default"]:
                done = subprocess.run([sys.executable, __file__, name, which], capture_output=True, text=True)
                seconds, memory, score, coverage = json.loads(done.stdout)
                rows = len(table(name)[0])
                print(f"| {name} | {rows} | {which} | {seconds:.1f} | {memory:.0f} | {score:.3f} | {coverage:.3f} |", flush=True)
