"""`tacita bench`: measurements of the engine, of batches and of two parties."""
