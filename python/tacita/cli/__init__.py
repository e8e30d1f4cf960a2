"""The command line: one module per command, thin over tacita.api."""

from __future__ import annotations

import os

from tacita.resources import one_blas_thread

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit status. numpy is imported inside, with one thread for linear
    algebra here and in every process that a command starts."""
    os.environ.update(one_blas_thread())
    from tacita.cli.app import main as run

    return run(arguments)
