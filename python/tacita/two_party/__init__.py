"""The two-party protocol: arithmetic on shares, its plans, its messages, both parties."""
