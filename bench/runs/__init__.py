"""Whole runs: a model, a scheme, a backend, and how near the answers come to the float model's."""
