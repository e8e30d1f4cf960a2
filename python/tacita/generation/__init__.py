"""Texts that one model writes: in the clear, on ciphertexts, by two parties."""
