"""One text a request: each token has a window of slots, and its features lie in the window."""
