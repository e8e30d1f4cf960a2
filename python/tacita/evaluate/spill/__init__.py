"""Ciphertexts on disk while memory is short: the files (store), the memory (pool), a backend over both."""

from tacita.evaluate.spill.backend import SpillingBackend
from tacita.evaluate.spill.pool import Codec, Handle, Pool
from tacita.evaluate.spill.store import SpillFile, SpillStore

__all__ = ["Codec", "Handle", "Pool", "SpillFile", "SpillStore", "SpillingBackend"]
