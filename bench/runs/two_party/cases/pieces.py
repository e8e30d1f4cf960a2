"""What models are made of, on shares of the sizes of the peer's script: matrix products, GELU, softmax, exact
comparisons, correlated transfers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from bench.runs.two_party.cases.case import (
    FRACTION,
    Array,
    Case,
    Floats,
    Prepared,
    Report,
    computed,
    decode,
    encode,
    errors,
    mine,
)
from bench.runs.two_party.session import Options
from tacita.approx.activations import HalfEven, Series, elu, gelu
from tacita.texts.answer import softmax

SMALL = 64
TIMED = (16, 768, 768), (256, 768, 768), (128, 768, 3072)  # of BumbleBee's Table VII
SLACK = 12  # products are off by less than 2^12 units of 2^-36


class ShareTimesWeights(Case):
    """Shares, (128, 768) where nothing else is said, times (768, 768) weights, both uniform in [-1, 1); the
    product is truncated to the fixed point again."""

    SHAPE = 128, 768, 768

    def __init__(self, *shape: int) -> None:
        rows, inner, columns = self._shape = shape or self.SHAPE
        self.name, self.named = f"matmul_{rows}_{inner}_{columns}", self._shape != self.SHAPE

    def shape(self, options: Options) -> tuple[int, int, int]:
        """Rows, inner size, columns."""
        rows, inner, columns = (4, 16, 8) if options.small else self._shape
        return rows, inner, columns

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


class PrivateEmbedding(PrivateTimesPrivate):
    """Rows of that table for 128 tokens that neither party knows, by equality tests and a product."""

    name, named = "embedding_128_50257_768", True
    IDS, RING = 16, 40  # bits

    def shape(self, options: Options) -> tuple[int, int, int]:
        return (3, 64, 16) if options.small else (128, 50257, 768)

    def ids(self, options: Options) -> Array:
        """The tokens."""
        rows, vocabulary, _ = self.shape(options)
        return self.rng("ids").integers(0, vocabulary, rows)

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        ids, table = self.ids(options), None
        left = self.rng("shares").integers(0, 1 << self.IDS, ids.shape)
        share = (left if party.is_client else (ids - left) % (1 << self.IDS)).astype(np.uint64)
        if not party.is_client:
            table = encode(self.table(options), self.TABLE).view(np.int64)

        def run(rows: int, *of: int) -> Array:
            ones = party.to_arithmetic(party.one_hot(share[:rows], self.IDS, of[0]), self.RING)
            scaled = (ones << np.uint64(FRACTION)) % np.uint64(1 << self.RING)
            weights = None if table is None else corner(table, *of)
            return np.asarray(party.share_times_weights(scaled, weights, (rows, *of), self.RING))

        return Prepared(lambda: run(1, 64, 16), lambda: run(*self.shape(options)))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        spare = 64 - self.RING
        total = np.left_shift(client + server, np.uint64(spare)).view(np.int64) >> spare
        return errors(decode(total, FRACTION + self.TABLE), self.table(options)[self.ids(options)])


def corner(x: Array, rows: int, columns: int) -> Array:
    """The first rows and columns, for a warm-up."""
    return np.ascontiguousarray(x[:rows, :columns])


def product(party: Any, x: Array, weights: Array | None, shape: tuple[int, int, int]) -> Array:
    """Shares of x times weights in the fixed point of x."""
    return truncated(party, party.share_times_weights(x, weights, shape, 64))


def truncated(party: Any, x: Array, fraction: int = FRACTION) -> Array:
    """The fraction bits of the weights taken off; the values are far below 2^62."""
    return np.asarray(party.truncate(x, 64, fraction))


class Activation(Case):
    """GELU or ELU of normal values of deviation 4; form: of the engine's, for those but the first."""

    def __init__(self, function: Series | HalfEven, count: int = 65536, form: str = "") -> None:
        self.name = "_".join(filter(None, (function.name, str(count), form)))
        self.named = self.name != "gelu_65536"
        self._function, self._count = function, count
        self._options = {"form": form} if form else {}

    def inputs(self, options: Options) -> Floats:
        """The values before they are shared."""
        return self.rng("inputs").standard_normal(SMALL if options.small else self._count) * 4

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        x = mine(self.inputs(options), self.rng("shares"), client=party.is_client)
        run = partial(getattr(party, self._function.name), **self._options)
        return Prepared(lambda: run(x[:SMALL]), lambda: run(x))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        return errors(decode(client + server), self._function.exact(self.inputs(options)))


ACTIVATIONS = (
    Activation(gelu),
    *(Activation(gelu, form=form) for form in ("abs8", "seg4", "p4")),
    Activation(gelu, 1 << 20),
    Activation(elu),
)


class Products(Case):
    """Products of two shares each in Z_{2^64}, as the peer has them, of values in [-1, 1) that are not
    truncated."""

    named = True

    def __init__(self, count: int) -> None:
        self.name, self.count = f"products_{count}", count

    def inputs(self, options: Options) -> Floats:
        """Both factors before they are shared."""
        return self.rng("inputs").uniform(-1.0, 1.0, (2, SMALL if options.small else self.count))

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        x, y = mine(self.inputs(options), self.rng("shares"), client=party.is_client)
        times = partial(party.scaled, held=64, short=64, bits=64, slack=SLACK)
        return Prepared(lambda: times(x[:SMALL], y[:SMALL]), lambda: times(x, y))

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        return errors(decode(client + server, 2 * FRACTION), np.prod(self.inputs(options), axis=0))


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
        return errors(decode(client + server), softmax(self.inputs(options)))


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


class Ferret(Case):
    """2^24 transfers with the server as the sender, taken as the protocols of a session take them; its first
    expansion is set-up.

    The parties of one direction have different work, and each has a core: `session_cots_per_second` is
    transfers by the CPU seconds of the busier one. After the run both parties show further transfers of the
    same pool: `max_abs_error` is how many were wrong.
    """

    name = "ferret"

    def count(self, options: Options) -> int:
        """Transfers taken in the measured run."""
        return 1 << (20 if options.small else 24)

    def checked(self, options: Options) -> int:
        """Transfers shown after it."""
        return 1 << (12 if options.small else 20)

    def prepare(self, party: Any, options: Options, report: Report) -> Prepared:
        return Prepared(
            warm=lambda: party.take_cots(1),
            run=lambda: np.array([party.take_cots(self.count(options))]),
            check=lambda made: np.array([made[0], party.wrong_cots(self.checked(options))]),
        )

    def judge(self, client: Array, server: Array, options: Options) -> dict[str, float]:
        """Wrong transfers, as each party counted; and both must have made as many."""
        return {"max_abs_error": float(max(client[1], server[1], abs(int(client[0]) - int(server[0]))))}

    def finish(self, figures: dict[str, Any], client: Array) -> Mapping[str, Any]:
        made = int(client[0])
        measured = figures["as_measured"]  # everything here is refills
        return {
            **measured,
            **computed(measured, figures["link"]),
            "cots_made": made,
            "session_cots_per_second": made / max(measured["cpu_seconds"]),
            "bytes_per_cot": 1e6 * measured["megabytes"] / max(made, 1),
        }
