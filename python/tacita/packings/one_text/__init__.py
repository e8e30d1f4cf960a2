"""What every packing of one text writes the same way, whatever the layout of its tokens."""
