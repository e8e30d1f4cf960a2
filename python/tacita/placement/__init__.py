"""Where levels go and bootstraps stand, and what that costs by a table of measured prices."""
