"""The command line: one module per command, thin over tacita.api."""

from tacita.cli.app import main

__all__ = ["main"]
