"""Making plans: from a model and its calibrated intervals to a circuit, its placement and its predictions."""
