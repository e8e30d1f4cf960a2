"""Coefficients packing: the slots that products of coefficients take and give (`crates/coefficients`)."""
