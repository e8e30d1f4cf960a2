"""What a client sends and receives as files."""
