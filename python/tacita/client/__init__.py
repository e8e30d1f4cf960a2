"""The client's side: secrets live and die here. Nothing on the server's side may import this package."""

from tacita.client.session import Client
from tacita.plans.answers import Answer

__all__ = ["Answer", "Client"]
