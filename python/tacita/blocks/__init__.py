"""Transformer blocks on encrypted tensors in rows packing, written once for every backend and model."""
