"""The upper seam: a small language of blocks in which models are written once and interpreted many times."""
