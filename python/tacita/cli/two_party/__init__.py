"""`tacita serve`, and its client: answers by two interacting parties."""
