"""What blocks know of a sequence: distances of tokens, and what came before them."""
