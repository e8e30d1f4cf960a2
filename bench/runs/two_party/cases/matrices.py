"""Matrix products: shares times the server's weights, and a private vector of the client times the server's
table."""

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


class ShareTimesWeights(Case):
    """(128, 768) shares times (768, 768) weights, both uniform in [-1, 1); the product is truncated to the
    fixed point again."""

    name = "matmul_128_768_768"

    def shape(self, options: Options) -> tuple[int, int, int]:
        """Rows, inner size, columns."""
        return (4, 16, 8) if options.small else (128, 768, 768)

    def inputs(self, options: Options) -> tuple[Floats, Floats]:
        """(x, weights)."""
        rng, (rows, inner, columns) = self.rng("inputs"), self.shape(options)
        return rng.uniform(-1.0, 1.0, (rows, inner)), rng.uniform(-1.0, 1.0, (inner, columns))

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        x, weights = self.inputs(options)
        share = mine(x, self.rng("shares"), client=party.is_client)
        known = None if party.is_client else encode(weights).view(np.int64)
        return Prepared(
            lambda: product(
                party, corner(share, 2, 16), None if known is None else corner(known, 16, 8), (2, 16, 8)
            ),
            lambda: product(party, share, known, self.shape(options)),
        )

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        x, weights = self.inputs(options)
        return errors(decode(client + server), x @ weights)


class PrivateTimesPrivate(Case):
    """A one-hot row of 50,257 that the client knows times a (50257, 768) table that the server knows: GPT-2's
    embedding."""

    name = "matmul_1_50257_768"
    CHOSEN = 12
    TABLE = 16  # fraction bits: a column of 50,257 entries stays below the norm that the engine plans for

    def shape(self, options: Options) -> tuple[int, int, int]:
        """Rows, inner size, columns."""
        return (1, 64, 16) if options.small else (1, 50257, 768)

    def table(self, options: Options) -> Floats:
        """The server's table, uniform in [-1, 1)."""
        _, inner, columns = self.shape(options)
        return self.rng("inputs").uniform(-1.0, 1.0, (inner, columns))

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        rows, inner, _ = shape = self.shape(options)
        row = encode(np.eye(1, inner, self.CHOSEN)) if party.is_client else None
        table = None if party.is_client else encode(self.table(options), self.TABLE).view(np.int64)
        few = None if row is None else corner(row, 1, 64)
        little = None if table is None else corner(table, 64, 16)
        return Prepared(
            lambda: party.client_times_server(few, little, (rows, 64, 16), 64),
            lambda: truncated(party, party.client_times_server(row, table, shape, 64), self.TABLE),
        )

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        return errors(decode(client + server), self.table(options)[self.CHOSEN : self.CHOSEN + 1])


def corner(x: Array, rows: int, columns: int) -> Array:
    """The first rows and columns, for a warm-up."""
    return np.ascontiguousarray(x[:rows, :columns])


def product(party: Any, x: Array, weights: Array | None, shape: tuple[int, int, int]) -> Array:
    """Shares of x times weights in the fixed point of x."""
    return truncated(party, party.share_times_weights(x, weights, shape, 64))


def truncated(party: Any, x: Array, fraction: int = FRACTION) -> Array:
    """The fraction bits of the weights taken off; the values are far below 2^62."""
    return np.asarray(party.truncate(x, 64, fraction))
