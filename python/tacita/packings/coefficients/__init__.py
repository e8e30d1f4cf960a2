"""Coefficients packing: rows, and feed-forward blocks on coefficients (`crates/coefficients`), LEAF's way."""
