"""Model families, one file each: configuration, names of weights, and the model as a walk over blocks."""
