"""Keys, requests and responses that a client sends and receives as files."""
