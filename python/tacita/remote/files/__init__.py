"""What is asked of a CKKS scheme, by files: the public folder comes, keys and requests go, responses come."""
