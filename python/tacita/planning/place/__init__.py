"""Placement: where levels go, what that costs, and its simulation."""
