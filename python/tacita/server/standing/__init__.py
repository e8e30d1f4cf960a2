"""What stays between requests, and the socket at which it is asked: docs/decisions/0019."""
