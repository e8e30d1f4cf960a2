"""The public plan of a run: calibrated intervals, placement of levels and bootstraps, predicted cost. No secrets here."""
