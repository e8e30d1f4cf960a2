"""What a server must remember over a restart: clients, keys, requests and what each used, in SQLite."""
