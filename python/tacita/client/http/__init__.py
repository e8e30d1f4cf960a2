"""Requests of a client over HTTPS."""
