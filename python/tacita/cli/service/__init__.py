"""Commands about the HTTP service."""
