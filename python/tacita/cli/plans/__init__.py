"""Commands that make, price and publish plans."""
