"""Text that goes on: a source of next tokens, and the loop that asks it."""
