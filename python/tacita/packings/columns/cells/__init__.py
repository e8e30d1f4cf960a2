"""One vector per sequence of a batch: what is left of a model once only its first tokens are read."""
