"""What decoders have in common."""
