"""Interpreters of a model between two parties: shares, fixed point, and counts."""
