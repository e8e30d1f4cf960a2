"""Functions of a feed-forward block and of a pooler: GELU, ReLU, tanh."""
