"""The largest models that are read. Whoever reads sizes that somebody else wrote compares them with these
first."""

MAX_LAYERS, MAX_HIDDEN, MAX_POSITIONS, MAX_VOCAB, MAX_CLASSES, MAX_TYPES = 48, 4096, 512, 1 << 20, 4096, 16
MAX_PIXELS = 4096  # a side of an image
MAX_STATED = 1 << 20  # positions that a model states; only the first MAX_POSITIONS are kept
