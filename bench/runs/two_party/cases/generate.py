"""A text that two parties write, step by step: a decoder's folder, or a shape with random weights."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.models.shapes import with_random_tensors, write_random
from bench.runs.two_party.cases.case import Array, Case, Floats, Prepared, Report
from bench.runs.two_party.session import Options
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, load
from tacita.errors import InputError
from tacita.generation.sources import Floats as FloatSource
from tacita.generation.sources import Integers
from tacita.models.registry import FAMILIES, tensor_shapes
from tacita.planning.calibrate.walk import prefix_rows
from tacita.planning.request import PlanRequest
from tacita.plans.scheme import BUMBLEBEE
from tacita.texts.answer import softmax
from tacita.texts.embed import embedded, tokenize
from tacita.texts.embedding import Embedder, Front, table_shapes
from tacita.texts.task import NEXT
from tacita.two_party.arithmetic.masked import AT_ONCE
from tacita.two_party.arithmetic.residues import from_floats
from tacita.two_party.model import ServerModel, share_prefix
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.planning import make_two_party_plan
from tacita.two_party.program.program import Program
from tacita.two_party.program.run import empty_past, zeros
from tacita.two_party.writing import Writer

# Jane Austen, Pride and Prejudice, 1813
TEXT = """It is a truth universally acknowledged, that a single man in possession of a good fortune, must be
in want of a wife. However little known the feelings or views of such a man may be on his first entering a
neighbourhood, this truth is so well fixed in the minds of the surrounding families, that he is considered as
the rightful property of some one or other of their daughters. "My dear Mr. Bennet," said his lady to him one
day, "have you heard that Netherfield Park is let at last?" Mr. Bennet replied that he had not. "But it is,"
returned she; "for Mrs. Long has just been here, and she told me all about it." Mr. Bennet made no answer.
""".replace("\n", " ")
PLAN = "plan.json"
TINY = 1e-30  # keeps logarithms finite
COMMON: dict[str, Any] = {
    "positions": 512,
    "types": 0,
    "pooling": "last",
    "norm_eps": 1e-5,
    "labels": (),
    "embedding_norm": False,
    "task": NEXT,
}
SMALL = {"layers": 1, "vocab": 64, "hidden": 24, "heads": 6, "intermediate": 38}
BEFORE, AFTER = slice(0, 4), slice(4, 8)  # of a step's counters: of what it prepared, of the rest
TOKEN = {"token": (BEFORE, AFTER), "token_before": (BEFORE,), "token_after": (AFTER,)}
MOST_FLOATS = 1 << 30  # weights of a shape that are made in memory, in floats


class Generate(Case):
    """A prompt and the tokens behind it, greedily; the client learns the tokens alone."""

    name = "generate"

    def available(self, options: Options) -> str:
        return "" if options.model else "no model: pass --model DIR of a decoder, or --shape"

    def checkpoint(self, options: Options) -> Checkpoint:
        """The model, the same in every process."""
        assert options.model is not None  # see `available`
        return load(options.model)

    def plan(self, model: Checkpoint, options: Options) -> TwoPartyPlan:
        """Calibrated on the default texts, as `tacita serve` does."""
        return make_two_party_plan(
            model, PlanRequest(scheme=BUMBLEBEE, tokens=options.prompt + options.new, begin=options.begin)
        )

    def prompt(self, model: Checkpoint, options: Options) -> list[int]:
        """Returns the tokens of the text, repeated to the length asked for."""
        ids = tokenize(model, TEXT, special=not options.begin)[0]
        return (ids * (1 + options.prompt // len(ids)))[: options.prompt]

    def share(self, options: Options) -> None:
        """The plan: two calibrations may differ in a last bit, and so in a bound."""
        plan = self.plan(self.checkpoint(options), options)
        (Path(options.folder) / PLAN).write_bytes(plan.to_bytes())

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        model = self.checkpoint(options)
        plan, prompt = _shared(options), self.prompt(model, options)
        past, own = empty_past(plan.program, len(plan.begin)), None
        if not party.is_client:
            own = ServerModel(plan.formats, Weights(model.tensors), plan.recorded.held)
            past = share_prefix(plan, prefix_rows(model, plan.begin).nodes) if plan.begin else past
        tables = table_shapes(model.config, model.config.hidden)
        front = Front(model.config, {name: model.tensors[name] for name in tables}, None)
        del model  # the client of a measured run has no weights
        gc.collect()
        writer = Writer(party, plan.program, own, past=past)
        side = Side(party, front, plan.program, writer, len(plan.begin), options.new, report)
        return Prepared(lambda: None, lambda: side.write(prompt))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, Any]:
        model = self.checkpoint(options)
        prompt, tokens = self.prompt(model, options), [int(token) for token in client[:, -1]]
        floats, fixed = logits_of(model, _shared(options), prompt, tokens)
        shares, others = softmax(floats), softmax(fixed)
        return {
            "max_abs_error": float(np.abs(floats - fixed).max()),
            "agreement": float(np.mean(floats.argmax(axis=-1) == tokens)),
            "kl": float(np.mean(np.sum(shares * np.log((shares + TINY) / (others + TINY)), axis=-1))),
            "prefill": _figures(client[:1], server[:1]),
            **{name: _figures(client[1:], server[1:], p) for name, p in TOKEN.items() if client[1:].size},
        }


class Shape(Generate):
    """Random weights of calibrated scale: layers of a published model's sizes. Calibrated on other random
    tokens."""

    CALIBRATION = 3  # sequences

    def __init__(self, name: str, family: str, **sizes: Any) -> None:
        self.name, self._family, self._sizes, self.layers = name, family, sizes, sizes["layers"]

    def available(self, options: Options) -> str:
        numbers = sum(map(math.prod, tensor_shapes(self._config(options)).values()))
        return "" if options.weights or numbers < MOST_FLOATS else f"{numbers} weights: pass --folder DIR"

    def checkpoint(self, options: Options) -> Checkpoint:
        """In memory, or in a folder, in half precision."""
        config, folder = self._config(options), options.weights
        if folder is None:
            return with_random_tensors(config, self.rng("weights"), self.name)
        if not (folder / "config.json").exists():
            write_random(config, folder, lambda file: self.rng(f"weights {file}"))
        model = load(folder)
        if tensor_shapes(model.config) != tensor_shapes(config):
            raise InputError(f"bench: {folder} holds another shape than {self.name}", hint="name another")
        return model

    def _config(self, options: Options) -> Any:
        sizes = self._sizes | (SMALL if options.small else {})
        sizes |= {"layers": options.layers} if options.layers else {}
        return FAMILIES[self._family].config(**COMMON | sizes)

    def plan(self, model: Checkpoint, options: Options) -> TwoPartyPlan:
        rows = options.prompt + options.new
        drawn = self.rng("calibration").integers(0, model.config.vocab, (self.CALIBRATION, rows))
        states = [(embedded(model, ids.tolist(), [0] * rows), np.ones(rows)) for ids in drawn]
        return make_two_party_plan(model, PlanRequest(scheme=BUMBLEBEE, tokens=rows, hidden_states=states))

    def prompt(self, model: Checkpoint, options: Options) -> list[int]:
        found: list[int] = self.rng("inputs").integers(0, model.config.vocab, options.prompt).tolist()
        return found


@dataclass
class Side:
    """One party's part of the writing. front: the tables that are published. begun: tokens of the public
    beginning. count: tokens to write."""

    party: Any
    front: Embedder
    program: Program
    writer: Writer
    begun: int
    count: int
    report: Report

    def write(self, prompt: list[int]) -> Array:
        """(tokens, both parts' counters and the token): what each step took; the server's tokens are 0."""
        steps, ids, told, left = list[list[float]](), prompt, self.begun, 0
        for number in range(self.count):
            self.report(f"token {number + 1}", number / self.count)
            before = self._counters()
            if (single := len(ids) == 1) and not left:  # as `Writer.read` does
                left = min(AT_ONCE, self.count - number)
                self.party.begin("prepare")
                self.writer.prepare(left)
                self.party.end()
            left -= single
            between = self._counters()
            self.party.begin("token" if number else "prompt")
            token = self._step(ids, told)
            self.party.end()
            told, ids = told + len(ids), [token]
            steps.append([*(between - before), *(self._counters() - between), token])
        return np.array(steps)

    def _step(self, ids: list[int], told: int) -> int:
        rows = embedded(self.front, ids, [0] * len(ids), told)
        if not self.party.is_client:
            found = self.writer.read(lambda: zeros(self.program, len(ids)), len(ids))
            self.writer.tell(self.writer.choose(found))
            return 0
        mask, form = np.ones(told + len(ids)), self.program.entered
        share = from_floats(rows, form.fraction, form.ring).values
        found = self.writer.read(lambda: share, len(ids), mask)
        return self.writer.learn(self.writer.choose(found))

    def _counters(self) -> Array:
        return np.array([time.monotonic(), time.process_time(), self.party.bytes_sent, self.party.rounds])


def _shared(options: Options) -> TwoPartyPlan:
    return parse_plan((Path(options.folder) / PLAN).read_bytes())


def logits_of(
    model: Checkpoint, plan: TwoPartyPlan, prompt: list[int], tokens: list[int]
) -> tuple[Floats, Floats]:
    """(tokens, vocab) each: by floats, and by the integers that the shares add up to, behind the same tokens
    that the parties wrote."""
    floats, fixed = FloatSource(model, plan.begin), Integers(model, plan)
    steps = (prompt, *([token] for token in tokens[:-1]))
    read = [(floats.logits(ids)[0], fixed.logits(ids)[0]) for ids in steps]
    return np.array([each for each, _ in read]), np.array([each for _, each in read])


def _figures(client: Array, server: Array, parts: Sequence[slice] = (BEFORE, AFTER)) -> dict[str, Any]:
    """The mean of these steps, or of a part: seconds (the slower), CPU s and MB (both), client's rounds."""
    means = [sum(side[:, part].mean(axis=0) for part in parts) for side in (client, server)]
    wall, cpu, sent, (rounds, _) = np.transpose(means)
    figures = {"wall_seconds": max(wall), "cpu_seconds": [*cpu], "megabytes": sum(sent) / 1e6}
    return {**figures, "rounds": rounds, "steps": len(client)}


LLAMA = {"activation": "silu", "position_table": False}
SMOL = {"hidden": 576, "heads": 9, "shared": 3, "intermediate": 1536, **LLAMA}
GPT2 = {"hidden": 768, "heads": 12, "intermediate": 3072, "activation": "gelu_tanh"}
PEERS_STEP = {"hidden": 128, "heads": 2, "intermediate": 512, "activation": "gelu_tanh"}
LLAMA_7B = {"hidden": 4096, "heads": 32, "intermediate": 11008, **LLAMA}
LLAMA_3_8B = {"hidden": 4096, "heads": 32, "shared": 4, "intermediate": 14336, "base": 500_000.0, **LLAMA}
DECODERS: Mapping[str, Generate] = {
    case.name: case
    for case in (
        Generate(),
        Shape("gpt2-tiny", "gpt2", layers=2, vocab=2048, **PEERS_STEP),
        Shape("gpt2", "gpt2", layers=12, vocab=50257, **GPT2),
        Shape("smollm2", "llama", layers=30, vocab=49152, **SMOL),
        Shape("smollm2-layer", "llama", layers=1, vocab=64, **SMOL),
        Shape("llama-7b", "llama", layers=32, vocab=32000, **LLAMA_7B),
        Shape("llama-7b-layer", "llama", layers=1, vocab=32000, **LLAMA_7B),
        # of 128,256 words, whose diagonals would be 9 GB
        Shape("llama-3-8b-cut", "llama", layers=32, vocab=4096, **LLAMA_3_8B),
    )
}
