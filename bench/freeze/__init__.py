"""Figures that a restructuring must leave as they are: where they come from, how they are compared."""
