"""One token's features in all slots: what is left of a model once only its first token is read."""
