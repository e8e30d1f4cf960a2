"""What the Rust client is tested with: programs of tiny models, the public parts and weights that belong to
them, and texts with their answers. Writes tests/vectors/program when it is run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from random_checkpoint import make_random_checkpoint, make_tokenizer, random_tensors

from tacita import api
from tacita.blocks.base import Norm
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.checkpoint.reference import reference
from tacita.data import DEFAULT_DECODER, DEFAULT_MODEL
from tacita.models.modernbert import ModernBertConfig
from tacita.planning.request import PlanRequest
from tacita.texts.embed import Tokens, embed, tokenize, tokens_of
from tacita.two_party.arithmetic.base import encode as integers
from tacita.two_party.arithmetic.rotary import turned_from
from tacita.two_party.model import ServerModel
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program import tiles
from tacita.two_party.program.tiles import tiles_of
from tacita.two_party.protocol import public_part

FOLDER = Path(__file__).parents[1] / "vectors" / "program"
CASES: Mapping[str, dict[str, Any]] = {
    "gelu-pooler": {"activation": "gelu"},
    "relu-mean": {"activation": "relu", "pooling": "mean"},
    "relu2-cls": {"activation": "relu2", "pooling": "cls"},
    "silu-cls": {"activation": "silu", "pooling": "cls"},
    "elu-cls": {"activation": "elu", "pooling": "cls"},
    "tiles": {},
}
# attention of a few rows at a time: a layer that sees everything, and one with a window of five tokens
WINDOWED = ModernBertConfig(
    2, 16, 2, 24, 32, 64, 0, "gelu", "mean", 1e-5, ("negative", "positive"), every=2, reach=2
)
SMALL = {"WHOLE": 4, "LEAST_ROWS": 2, "ROWS_OF_TILES": 4, "MOST_SCORES": 96}
# heads and rows of a tile, how far back and on; heads, queries and keys of all
TILES = (
    ((1, 4, None, None), (2, 10, 10)),
    ((2, 4, 2, 3), (3, 10, 10)),
    ((4, 3, None, 0), (4, 8, 12)),
    ((2, 4, 4, 0), (3, 6, 9)),
    ((2, 8, 1, 0), (3, 1, 9)),
    ((12, 128, 64, 64), (12, 8192, 8192)),
)
# base, scales, first position, fraction bits: positions from first on
ANGLES = (
    (5e5, (1.0, 1.0 / 3.0, 0.1234567890123, 0.125), 0, 14),
    (1e4, (1.0, 0.7, 0.0, 0.0), 8189, 14),
    (5e5, (0.9999999999999999, 0.2, 5e-324, 1e-7), 8189, 30),
)
TOKENIZERS = {"tokens.json": DEFAULT_MODEL, "bytes.json": DEFAULT_DECODER}
TEXTS = ("A fine film", "The plot is never boring, very good.")
# what normalisers, pre-tokenisers and WordPiece treat in a way of their own
HARD = (
    "a film of quiet beauty",
    "  Tabs\tand\nlines\r\n  ",
    "Café naïve Ångström façade e\u0301",
    "It's 3.5 % (or $4) -- isn't-it?!",
    "電影很好 movie 映画",
    "supercalifragilisticexpialidocious " + "x" * 101,
    "[MASK] is a token, [CLS] too, [mask] is not",
    "zero\u200bwidth soft\u00adhyphen \ufeff bell\x07 nul\x00 \ufffd",
    "ＦＵＬＬ width ﬁ ligature İstanbul ẞ Σς",
    "emoji 👍🏽 and “quotes” — dash… ¿qué? § © ™ ٣",
    "\u00a0non\u2003breaking\u2028spaces",
    "한국어 हिन्दी עִבְרִית العَرَبِيَّة ไทย",
)
# a question and its context
PAIRS = (
    ("How tall is it?", "The tower of 1889, in Orléans, is 330 m tall."),
    ("whereabouts", "  電影 at the café "),
)


def model_of(name: str) -> Checkpoint:
    """Its weights in few digits, so that they are short."""
    if name == "tiles":
        tokenizer = make_tokenizer(WINDOWED.vocab)
        checkpoint = from_tensors(WINDOWED, random_tensors(WINDOWED, 1), tokenizer, name="random")
    else:
        checkpoint = make_random_checkpoint(layers=1, **CASES[name])
    tensors = {key: np.float16(tensor).astype(np.float64) for key, tensor in checkpoint.tensors.items()}
    return replace(checkpoint, tensors=tensors)


@contextmanager
def small_tiles() -> Iterator[None]:
    """Tiles of a few rows, for texts of a few tokens."""
    with ExitStack() as stack:
        for name, value in SMALL.items():
            stack.enter_context(mock.patch.object(tiles, name, value))
        yield


def vector_of(name: str) -> dict[str, Any]:
    """One case."""
    checkpoint = model_of(name)
    with small_tiles() if name == "tiles" else nullcontext():
        plan = make_two_party_plan(checkpoint, PlanRequest(tokens=16, texts=list(TEXTS)))
        assert plan.program.tokens == 16  # recorded here
    part = public_part.encode(public_part.public_part(plan.program, checkpoint))
    model, held = (
        ServerModel(plan.formats, Weights(checkpoint.tensors), plan.recorded.held),
        plan.recorded.held,
    )
    maps = [step for step, (what, _) in held.items() if isinstance(what, tuple)]
    norms = [model.norm(step) for step, (what, _) in held.items() if isinstance(what, Norm)]
    return {
        "part": part.hex(),
        "maps": [_map(model, step) for step in maps],
        "norms": [[list(map(float, each)) for each in norm] for norm in norms],
        "texts": [_asked(plan, checkpoint, text) for text in TEXTS],
    }


def _map(model: ServerModel, step: int) -> dict[str, Any]:
    bias = model.bias(step, (), 0).view(np.int64)
    return {"weights": model.matrix(step).ravel().tolist(), "bias": bias.tolist()}


def _asked(plan: TwoPartyPlan, checkpoint: Checkpoint, text: str) -> dict[str, Any]:
    hidden, mask = embed(checkpoint, text, plan.tokens)
    answer = reference(checkpoint, hidden, mask).trace["answer"]
    return {
        "text": text,
        "ids": tokenize(checkpoint, text)[0],
        "mask": mask.tolist(),
        "input": integers(hidden, plan.formats.fraction).ravel().tolist(),
        "answer": np.ravel(answer).tolist(),
    }


def tokens(model: str = DEFAULT_MODEL) -> list[dict[str, Any]]:
    """Returns texts with their ids, types and places, of a shipped model's tokenizer."""
    front = api.load(model)
    pairs = PAIRS if model == DEFAULT_MODEL else ()
    return [
        {**_places(tokens_of(front, text)), "types": tokenize(front, text)[1]} for text in (*HARD, *pairs)
    ]


def turns() -> list[dict[str, Any]]:
    """Returns cosines and sines of three positions by scaled angles."""
    made = []
    for base, scales, first, bits in ANGLES:
        cos, sin = turned_from((base, scales), first, (3, 2 * len(scales)), bits)
        table = {"cos": cos.tolist(), "sin": sin.tolist()}
        made.append({"base": base, "scales": list(scales), "first": first, "bits": bits, **table})
    return made


def parts() -> list[dict[str, Any]]:
    """Returns the tiles of a few steps."""
    names = ("heads", "rows", "back", "on")
    made = [dict(zip(names, step, strict=True)) for step, _ in TILES]
    places = [
        [[one.heads, one.queries, one.keys, one.first] for one in tiles_of(step, *sizes)]
        for step, (_, sizes) in zip(made, TILES, strict=True)
    ]
    each = zip(made, TILES, places, strict=True)
    return [{**step, "sizes": list(sizes), "tiles": place} for step, (_, sizes), place in each]


def _places(text: Tokens) -> dict[str, Any]:
    """places: (part, start, end, start and end of the word) of each token that is of a text."""
    places = [
        None if each.part is None else [each.part, each.start, each.end, *each.word] for each in text.tokens
    ]
    return {"texts": list(text.parts), "ids": [each.id for each in text.tokens], "places": places}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        (FOLDER / f"{case}.json").write_text(json.dumps(vector_of(case), separators=(",", ":")) + "\n")
    (FOLDER / "tiles-of.json").write_text(json.dumps(parts(), separators=(",", ":")) + "\n")
    (FOLDER / "turns.json").write_text(json.dumps(turns(), separators=(",", ":")) + "\n")
    for name, model in TOKENIZERS.items():
        lines = (json.dumps(each) for each in tokens(model))
        (FOLDER / name).write_text("[\n" + ",\n".join(lines) + "\n]\n")
