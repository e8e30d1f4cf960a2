"""THOR's packing of one text: diagonals of all heads side by side (THOR, section 4.1)."""
