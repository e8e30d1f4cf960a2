"""Where the numbers of requests and responses stand in slots: all that a client knows of a packing."""
