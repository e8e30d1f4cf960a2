"""Plan files: what both parties of a run agree on, typed, checked and hashed. All of it is public."""
