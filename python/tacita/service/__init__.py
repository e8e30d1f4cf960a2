"""The HTTP service that an operator runs: `tacita serve --https`."""
