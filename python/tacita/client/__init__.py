"""The client's side: secrets live and die here. Nothing on the server's side may import this package."""

from tacita.client.answer import Answer
from tacita.client.session import Client

__all__ = ["Answer", "Client"]
