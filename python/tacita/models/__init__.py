"""Model definitions, one file each: configuration, weight names with shapes, and the float64 reference."""
