"""Calibration: the intervals of every node of a model, measured on sample text, widened, rounded outwards."""
