"""Hugging Face folders -> checked, frozen checkpoints; tokenising and embedding at the client."""

from tacita.checkpoint.load import Checkpoint, from_tensors, load
from tacita.texts.embed import embed, pad_hidden

__all__ = ["Checkpoint", "embed", "from_tensors", "load", "pad_hidden"]
