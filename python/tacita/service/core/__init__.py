"""The service without its HTTP: what is offered, what happens to a request, who is told."""
