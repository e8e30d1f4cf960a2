"""`python -m bench` is its command line. numpy is imported inside, with one thread for linear algebra here
and in every process that a command starts."""

from __future__ import annotations

import os
import sys

from tacita.resources import one_blas_thread


def main(arguments: list[str] | None = None) -> int:
    """Runs one bench and returns its exit status, as of `tacita`'s commands."""
    os.environ.update(one_blas_thread())
    from bench.app import app
    from tacita.cli.app import main as run

    return run(arguments, app)


if __name__ == "__main__":
    sys.exit(main())
