"""The commands of `python -m bench`: options, calls and tables."""
