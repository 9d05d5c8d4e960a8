"""The examples run, and the code in docstrings does what it says."""

import doctest
import runpy
from pathlib import Path

import pytest

import cagey
from cagey import _api, _estimators, _objective, kernels

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_examples(path, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(path), str(tmp_path / "figure.svg")])
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("module", [cagey, _api, _estimators, _objective, kernels], ids=lambda module: module.__name__)
def test_docstrings(module):
    assert doctest.testmod(module).failed == 0
