"""Batches spread over machines by Ray."""
