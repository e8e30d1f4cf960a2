"""The exponential of a softmax, and what retrained models put in its place."""
