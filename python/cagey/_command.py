"""The command ``cagey``, for the console script of the package."""

from __future__ import annotations

import sys

from ._cagey import run_command


def main() -> int:
    """Run the command with the arguments of this process; returns its exit code."""
    return run_command(["cagey", *sys.argv[1:]])
