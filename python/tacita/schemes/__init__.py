"""Packing x approximation x level policy, as lists of stages."""
