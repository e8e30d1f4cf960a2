"""Products of two encrypted matrices on diagonals, and the transposition that one of them needs."""
