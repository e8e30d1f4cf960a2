"""The upper interface: a small language of blocks in which models are written once and read many times."""
