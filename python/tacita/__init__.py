"""Tacita classifies text that it never sees: a client encrypts, a server evaluates a transformer, the client
decrypts."""

from tacita.errors import TacitaError

__version__ = "0.1.0"

__all__ = ["TacitaError", "__version__"]
