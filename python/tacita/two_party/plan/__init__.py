"""Plans of the two-party protocol, what they cost, and their checks."""
