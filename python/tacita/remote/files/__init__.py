"""What is asked of a CKKS scheme, by files: the public folder comes, keys and a request go, a response comes."""
