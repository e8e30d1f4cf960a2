"""The server's side: plan, weights, evaluation keys, ciphertexts. It cannot name a secret key."""

from tacita.evaluate.session import Server

__all__ = ["Server"]
