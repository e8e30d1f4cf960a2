"""GELU, softmax and exact comparisons on shares: the inputs of the peer's script (its `gelu_seg4`,
`softmax_cfg`, `less`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.runs.two_party.cases.case import (
    FRACTION,
    Array,
    Case,
    Floats,
    Options,
    Prepared,
    Report,
    decode,
    encode,
    errors,
    mine,
)
from tacita.approx.activations import gelu

SMALL = 64


class Gelu(Case):
    """GELU of 2^16 normal values of deviation 4."""

    name = "gelu_65536"

    def inputs(self, options: Options) -> Floats:
        """The values before they are shared."""
        return self.rng("inputs").standard_normal(SMALL if options.small else 65536) * 4

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        x = mine(self.inputs(options), self.rng("shares"), client=party.is_client)
        return Prepared(lambda: party.gelu(x[:SMALL]), lambda: party.gelu(x))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        return errors(decode(client + server), gelu.exact(self.inputs(options)))


class Softmax(Case):
    """Softmax of 960 rows of 180 normal values of deviation 3."""

    name = "softmax_960_180"

    def inputs(self, options: Options) -> Floats:
        """The scores before they are shared."""
        return self.rng("inputs").standard_normal((2, 20) if options.small else (960, 180)) * 3

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        x = mine(self.inputs(options), self.rng("shares"), client=party.is_client)
        return Prepared(lambda: party.softmax(x[:1]), lambda: party.softmax(x))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        scores = self.inputs(options)
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return errors(decode(client + server), raised / raised.sum(axis=-1, keepdims=True))


class Less(Case):
    """1{x < 0.1} of 2^16 values in [-1, 1), all 64 bits compared; the result is a shared bit, which must be
    exact."""

    name = "less_65536"
    CONSTANT = 0.1

    def inputs(self, options: Options) -> Floats:
        """The values before they are shared."""
        return self.rng("inputs").uniform(-1.0, 1.0, SMALL if options.small else 65536)

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        x = mine(self.inputs(options), self.rng("shares"), client=party.is_client)
        if party.is_client:
            x = x - encode(np.full(1, self.CONSTANT))
        return Prepared(lambda: party.negative(x[:SMALL], 64), lambda: party.negative(x, 64))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        constant = round(self.CONSTANT * 2.0**FRACTION)
        wanted = np.rint(self.inputs(options) * 2.0**FRACTION) < constant
        return errors(np.asarray(client ^ server, dtype=np.float64), wanted.astype(np.float64))
