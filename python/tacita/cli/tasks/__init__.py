"""Commands that ask a model other questions than `classify`."""
