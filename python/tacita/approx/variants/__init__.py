"""Which approximation stands for which function: ours, or those of a paper."""
