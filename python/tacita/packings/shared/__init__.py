"""What packings write the same way, whatever the layout of their tokens."""
