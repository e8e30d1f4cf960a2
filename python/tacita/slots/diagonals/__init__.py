"""Generalised diagonals of a linear map as a table, of which `slots.linear` makes a plan."""
