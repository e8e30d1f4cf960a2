"""The steps of one private answer through files, and `demo`, which walks all of them."""
