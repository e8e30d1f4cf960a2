"""Where a server keeps what clients send, and how bytes get there."""
