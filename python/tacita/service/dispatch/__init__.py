"""The server's side of evaluation: who is next, and what the worker processes are told and say."""
