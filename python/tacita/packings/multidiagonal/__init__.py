"""THOR's own packing: its layout and its matrix products. No parts yet: no model is lowered to it."""
