"""The cases of `python -m bench generate`, and how their parties connect: what a child process runs on."""

from __future__ import annotations

from collections.abc import Mapping

from bench.runs.two_party.cases.generate import Generate, Shape
from bench.runs.two_party.session import connect, listen

__all__ = ["CASES", "connect", "listen"]

LLAMA = {"activation": "silu", "position_table": False}
SMOL = {"hidden": 576, "heads": 9, "shared": 3, "intermediate": 1536, **LLAMA}
GPT2 = {"hidden": 768, "heads": 12, "intermediate": 3072, "activation": "gelu_tanh"}
TINY = {"hidden": 128, "heads": 2, "intermediate": 512, "activation": "gelu_tanh"}  # the peer's step
LLAMA_7B = {"hidden": 4096, "heads": 32, "intermediate": 11008, **LLAMA}
ALL: tuple[Generate, ...] = (
    Generate(),
    Shape("gpt2-tiny", "gpt2", layers=2, vocab=2048, **TINY),
    Shape("gpt2", "gpt2", layers=12, vocab=50257, **GPT2),
    Shape("smollm2", "llama", layers=30, vocab=49152, **SMOL),
    Shape("smollm2-layer", "llama", layers=1, vocab=64, **SMOL),
    Shape("llama-7b-layer", "llama", layers=1, vocab=32000, **LLAMA_7B),
)
CASES: Mapping[str, Generate] = {case.name: case for case in ALL}
