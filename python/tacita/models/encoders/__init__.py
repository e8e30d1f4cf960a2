"""What families of encoders share: configuration, walks of layers, heads, names of tensors."""
