"""The client's side: secrets live and die here. Nothing on the server's side may import this package."""

from tacita.client.session import Answer, Client

__all__ = ["Answer", "Client"]
