"""`python -m bench two-party` and `generate`: building blocks and whole models of the two-party mode,
each run by two processes on this machine."""
