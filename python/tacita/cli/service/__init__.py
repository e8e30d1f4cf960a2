"""Commands of the HTTP service and its client: what is kept of services, and what an operator does."""
