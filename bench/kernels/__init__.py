"""The engine and the protocols piece by piece: seconds, memory, bits of security."""
