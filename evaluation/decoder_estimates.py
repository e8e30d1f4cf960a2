"""Planned seconds of a token of published decoders on ciphertexts: random weights of calibrated scale.

    python evaluation/decoder_estimates.py --shape gpt2 --tokens 32 --json F

Two layers are planned, the first of which computes every row and the second one query (`blocks.sequence.
latest`), with the first 4,096 words. A token of the whole model, of which each asks anew with the whole text,
is then the first layer as often as there are layers but one, the second, and the answer as often as words
have such blocks. `kept` is what a token would take if keys and values stayed at the server: the second layer
as often as there are layers, and the answer. Nothing is encrypted. `--layers 1` plans the second alone, where
two do not fit into memory.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import bench_on_path  # noqa: F401
import numpy as np

from bench.runs.two_party.cases.case import Options
from bench.runs.two_party.cases.decoders import GPT2, LLAMA, SMOL
from bench.runs.two_party.cases.generate import Shape
from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.packings.lowering import in_slots
from tacita.plans.plan import Plan
from tacita.plans.prices.cost import Prices
from tacita.texts.embed import arranged, embedded

SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {
        "family": "gpt2",
        "layers": 12,
        "words": 50257,
        "sizes": GPT2,
    },
    "smollm2": {
        "family": "llama",
        "layers": 30,
        "words": 49152,
        "sizes": SMOL,
    },
    "llama-3-8b": {
        "family": "llama",
        "layers": 32,
        "words": 128256,
        "sizes": {"hidden": 4096, "heads": 32, "shared": 4, "intermediate": 14336, "base": 5e5, **LLAMA},
    },
}
WORDS, SEQUENCES = 4096, 6


def model_of(shape: dict[str, Any], layers: int) -> Checkpoint:
    """Random weights of calibrated scale."""
    sizes = {"layers": layers, "vocab": WORDS, **shape["sizes"]}
    return Shape("decoder", shape["family"], **sizes).checkpoint(Options())


def planned(model: Checkpoint, tokens: int) -> Plan:
    """Of scheme thor, on random texts of all lengths."""
    rng = np.random.default_rng(8)
    texts = [rng.integers(0, WORDS, length) for length in np.linspace(2, tokens, SEQUENCES).astype(int)]
    states = [
        arranged(embedded(model, ids.tolist(), [0] * len(ids)), tokens, backwards=True) for ids in texts
    ]
    found = api.plan(
        in_slots(model), scheme="thor", tokens=tokens, hidden_states=states, prices=Prices.shipped(16)
    )
    assert isinstance(found, Plan)  # of a scheme on ciphertexts
    return found


def figures(plan: Plan, shape: dict[str, Any]) -> dict[str, Any]:
    """By part of the model, and of a token of the whole one."""
    seconds = dict(zip([s.name for s in plan.stages], plan.prediction.stage_seconds, strict=True))
    last = f"layer{plan.model.layers - 1}."
    parts = {"layer": 0.0, "last": 0.0, "answer": 0.0}
    for name, value in seconds.items():
        kind = "last" if name.startswith(last) else "layer" if name.startswith("layer") else "answer"
        parts[kind] += value
    blocks = -(-shape["words"] // WORDS)
    answered = parts["last"] + blocks * parts["answer"]
    return {
        **parts,
        "token": (shape["layers"] - 1) * parts["layer"] + answered if parts["layer"] else None,
        "kept": (shape["layers"] - 1) * parts["last"] + answered,
        "bootstraps": plan.bootstraps,
        "stages": seconds,
    }


def main() -> None:
    """See the module."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--shape", choices=sorted(SHAPES), required=True)
    options.add_argument("--tokens", type=int, default=32)
    options.add_argument("--layers", type=int, choices=(1, 2), default=2)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    shape = SHAPES[given.shape]
    found = figures(planned(model_of(shape, given.layers), given.tokens), shape)
    print(json.dumps(found, indent=1))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
