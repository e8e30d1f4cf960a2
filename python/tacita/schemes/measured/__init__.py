"""Measuring what plans and estimates need of this machine: `tacita prices`."""
