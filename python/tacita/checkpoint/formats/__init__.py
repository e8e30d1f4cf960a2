"""Kinds of files that hold weights, each as a `checkpoint.weights.Stored`."""
