"""The largest models that are read. Whoever reads sizes that somebody else wrote compares them with these
first."""

MAX_LAYERS, MAX_HIDDEN, MAX_POSITIONS, MAX_VOCAB, MAX_CLASSES, MAX_TYPES = 24, 4096, 512, 1 << 20, 4096, 16
