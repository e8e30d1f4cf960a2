"""A decoder's step: rows of which one is new, behind those that the server kept."""
