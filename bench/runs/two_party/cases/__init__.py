"""What is measured: products, functions of many numbers, whole models."""
