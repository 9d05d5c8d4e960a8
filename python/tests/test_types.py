"""The stub of the native module says what the module has."""

import subprocess
import sys

import pytest


def test_programs_that_use_the_package_are_typed(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(
        "import numpy as np\n"
        "from cagey import GPClassifier, GPRegressor, kernels as k\n"
        "X = np.zeros((9, 1))\n"
        "model = GPRegressor(k.rbf() * 2.0 + 'linear', noise=(0.1, 1.0)).fit(X, X[:, 0], noise_sd=X[:, 0])\n"
        "low = model.predict_interval(X, noise_sd=X[:, 0])[:, 0]\n"
        "share = GPClassifier().fit(X, X[:, 0]).predict_proba(X)\n"
    )
    words = [sys.executable, "-m", "mypy", "--strict", "user.py"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_the_stub_is_that_of_the_module():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "cagey._cagey"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
