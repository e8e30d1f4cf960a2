"""The service's paths, who may call them, and how errors are told."""
