"""The plan of two interacting parties: its file, and what it says of bytes, seconds and chances."""
