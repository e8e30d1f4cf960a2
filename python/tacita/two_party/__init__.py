"""Interpreters of the two-party tensor operations: plain (the meaning), fixed (the rounding), shares (the real thing)."""
