"""Many texts a request: each feature has a ciphertext, which holds it for all tokens of all texts."""
