"""Package data: the sentences that intervals are calibrated on when the user brings none."""
