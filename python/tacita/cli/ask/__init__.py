"""Commands that answer texts, one or many, in the clear or by a connection."""
