"""How the heads of an attention lie side by side in rows, and the maps between their layouts."""
