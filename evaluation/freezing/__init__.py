"""The parts of `evaluation/freeze.py`: figures, where they come from, how they are compared and written."""
