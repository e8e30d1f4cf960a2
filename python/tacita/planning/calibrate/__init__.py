"""Calibration: the intervals, scores and row estimates that sample texts show."""
