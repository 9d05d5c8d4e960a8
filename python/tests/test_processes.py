"""Threads, processes and signals of the host."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cagey import GPClassifier, GPRegressor

KERNEL = "matern32(ard)"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(60, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)


@pytest.fixture(scope="module")
def fitted(rows):
    return GPRegressor(KERNEL, threads=2).fit(*rows)


def test_it_works_inside_what_scikit_learn_has(rows):
    X, y = rows
    pipeline = make_pipeline(StandardScaler(), GPRegressor(KERNEL)).set_output(transform="pandas")
    assert pipeline.fit(pd.DataFrame(X, columns=["a", "b"]), y).score(pd.DataFrame(X, columns=["a", "b"]), y) > 0.9
    search = GridSearchCV(GPRegressor(), {"kernel": ["rbf", "linear"]}, n_jobs=2, cv=3).fit(X, y)
    assert search.best_params_ == {"kernel": "rbf"}
    assert cross_val_score(GPClassifier("rbf"), X, y > 0, cv=3).mean() > 0.8
    model = search.best_estimator_
    assert partial_dependence(model, X, [0], grid_resolution=5)["average"].shape == (1, 5)
    importance = permutation_importance(model, X, y, n_repeats=2, random_state=0)["importances_mean"]
    assert importance[0] > 5 * abs(importance[1])


def _predicted(data):
    model, X = data
    return pickle.loads(model).predict(X), GPRegressor(KERNEL).fit(X[:20], X[:20, 0]).predict(X[:3])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_computes(rows, fitted):
    X, _ = rows
    large = np.repeat(X, 500, axis=0)
    expected = fitted.predict(large)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(_predicted, [(pickle.dumps(fitted), large)] * 2).get(timeout=100)
    np.testing.assert_array_equal(found[0][0], expected)
    # The parent's own object, in a child that never loaded it.
    queue = multiprocessing.get_context("fork").Queue()
    child = multiprocessing.get_context("fork").Process(target=lambda: queue.put(fitted.predict(large)))
    child.start()
    np.testing.assert_array_equal(queue.get(timeout=100), expected)
    child.join()


def test_threads_of_a_service_agree_and_hold_no_memory(rows, fitted):
    X, _ = rows
    expected = fitted.predict(X)
    wrong = []

    def serve():
        for at in range(1000):
            if not np.array_equal(fitted.predict(X[at % 60 : at % 60 + 1]), expected[at % 60 : at % 60 + 1]):
                wrong.append(at)

    def all_at_once():
        threads = [threading.Thread(target=serve) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join(timeout=200) for thread in threads]
        assert not any(thread.is_alive() for thread in threads)

    all_at_once()
    before = _resident()
    all_at_once()
    assert not wrong and _resident() - before < 8e6


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


AT_THE_FIRST_STEP = """
import numpy as np, os, sys, threading, time
class Watched:
    # Standard error that has this process interrupted once a step is shown on it.
    def __init__(self):
        self.shown = threading.Event()
        threading.Thread(target=lambda: (self.shown.wait(), os.kill(os.getpid(), 2)), daemon=True).start()
    def write(self, text):
        "step" in text and self.shown.set()
    def flush(self):
        pass
sys.stderr = Watched()
"""


def test_an_interrupt_leaves_the_last_step():
    script = AT_THE_FIRST_STEP + textwrap.dedent(
        """
        from cagey import GPRegressor
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(1500, 8)), rng.normal(size=1500)
        model = GPRegressor("rbf(ard)", starts="data", verbose=1)
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            print("interrupted", np.isfinite(model.predict(X[:1]))[0], model.summary_["cut_short"])
        """
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["interrupted", "True", "True"], done


def test_an_interrupt_ends_a_comparison():
    script = AT_THE_FIRST_STEP + textwrap.dedent(
        """
        import cagey, pandas as pd
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.normal(size=(1500, 8)), columns=list('abcdefgh'))
        began = time.monotonic()
        try:
            cagey.compare(table, kernels=["rbf(ard)", "matern32(ard)"], starts="data", threads=1, verbose=1)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - began < 60)
        """
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["interrupted", "True"], done


def test_the_host_keeps_its_handler_of_signals(rows):
    def own(*_):
        raise AssertionError("nobody has interrupted")

    before = signal.signal(signal.SIGINT, own)
    try:
        GPRegressor(KERNEL, threads=1).fit(*rows)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_workers_share_the_cores():
    code = "from cagey import _cagey; print(_cagey.default_threads())"
    for name in ("OMP_NUM_THREADS", "CAGEY_THREADS"):
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, name: "1"}, capture_output=True, text=True)
        assert done.stdout.strip() == "1"
