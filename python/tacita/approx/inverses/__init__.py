"""1/x and 1/sqrt(x) on positive intervals, and the constants that retrained models have instead."""
