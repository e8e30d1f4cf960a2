"""Interpreters of models for two parties: fixed (the rounding), shares (the real thing), count (the cost)."""
