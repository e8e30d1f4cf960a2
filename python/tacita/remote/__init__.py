"""A client of the HTTP service: `tacita.connect(url)`."""
