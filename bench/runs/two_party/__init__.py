"""`python -m bench two-party`: building blocks and whole models of the two-party mode, each run by two
processes on this machine."""

from bench.runs.two_party.bench import measure_case, summary
from bench.runs.two_party.links import LINKS, Link

__all__ = ["LINKS", "Link", "measure_case", "summary"]
