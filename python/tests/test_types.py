"""The stub of the native module says what the module has."""

import subprocess
import sys

import pytest


def test_the_stub_is_that_of_the_module():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "cagey._cagey"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
