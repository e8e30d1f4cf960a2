"""Two-party sessions of the service, in processes of their own."""
