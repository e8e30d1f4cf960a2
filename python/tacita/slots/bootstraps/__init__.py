"""What a bootstrap does beside refreshing: a function of its argument, a product of coefficients."""
