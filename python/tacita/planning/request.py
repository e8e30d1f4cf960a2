"""What is asked of a plan: one frozen object that every function on the way to a plan passes on.

>>> request = PlanRequest(tokens=16, inputs=40)
>>> (request.scheme_name, request.goal.value)    # named by nobody, so meant by the number of texts
('auto', 'throughput')
>>> PlanRequest(scheme="thorn")
Traceback (most recent call last):
tacita.errors.InputError: no scheme 'thorn'

A name that there is not (of a scheme, an objective, a preset, ...) is refused here, before any work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TypedDict

from tacita.approx.functions import Functions
from tacita.errors import InputError, nearest, require_keywords
from tacita.planning.calibrate.calibrate import Sample, load_texts
from tacita.planning.calibrate.walk import neighbours
from tacita.planning.fitting import Accuracy
from tacita.planning.options import GAP, LOGITS, OPTIONS, Option
from tacita.plans.commitment import LinkSpeed
from tacita.plans.plan import ParameterInfo
from tacita.plans.presets import candidates
from tacita.plans.prices.cost import Prices
from tacita.plans.scheme import AUTO, BUMBLEBEE, NAMES, SCHEMES, packings_of, require_name, scheme_named
from tacita.texts.embed import Text, parts_of
from tacita.two_party.arithmetic.base import GELU_FORMS, Formats

NEAREST = 10  # documents of a search


class Objective(StrEnum):
    """What to keep short: the time until the last answer, or until the first."""

    throughput = "throughput"
    latency = "latency"


def require_fields(names: Collection[str], others: Collection[str]) -> None:
    """Raises TypeError for a keyword that is no field of a plan request and none of the others, with the
    nearest name."""
    require_keywords(names, {each.name for each in fields(PlanRequest)} | set(others))


def objective_of(name: str) -> Objective:
    """Returns the objective of this name. Raises InputError for an unknown one."""
    try:
        return Objective(name)
    except ValueError:
        raise InputError(f"no objective {name!r}", hint=nearest(name, Objective)) from None


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What a plan is to be: what all schemes read, then what ciphertexts, two parties and decoders read.

    tokens: length of every text, padding included.
    scheme: thor, leaf (one text a request), arion, moai (a batch), bumblebee (two parties), auto (the best).
    inputs: texts to expect; a batch is shaped for them, and of several the default scheme is auto.
    objective: what auto keeps short: throughput (default of several texts) or latency.
    texts: calibration sentences (default: those of the model's folder, else the package's).
    hidden_states: (states, mask) pairs to calibrate on in place of texts.
    link: speed between client and server; without one auto cannot weigh bumblebee.
    preset: encryption parameters by name; "leveled": the smallest secure ring without bootstrapping.
    packing: rows or multidiagonal of thor, coefficients or rows of leaf; auto for the quicker one.
    functions: approximations: tacita, moai, arion, leaf, either (of tacita and leaf the cheaper), or thor.
    accuracy: stated errors of the approximations.
    prices: table by which plans are priced, used on its ring (default: the shipped table, else formulas).
    salt: of the commitment to the weights (default: a fresh one); with the same salt a plan is the same.
    embeddings: of two parties, whether the table of words is "published" or "hidden".
    formats: of two parties, the fixed-point numbers.
    begin: of a decoder, a text before every prompt that is no secret.
    reveal: of a decoder on ciphertexts, what the client gets: "logits", or "token", the likeliest alone.
    gap: logits nearer than this cannot be told apart under reveal="token" (docs/decisions/0035).
    cache: of a decoder under thor, the server keeps rows of earlier tokens (docs/decisions/0038).
    nearest: of a search by two parties, documents of which a client learns the scores; 0 for all.
    quick: tries the circuit on a text, its approximations on ten: enough where nothing is encrypted.

    functions="thor" has every softmax in rounds; tacita, leaf and either have those whose scores ask for it,
    and all where answers would be coarse (docs/decisions/0144). begin: the server computes it in the clear,
    so that no value of it needs room; many decoders have values in their first token a thousand times those
    of any other. Where positions are turned a prompt is not padded behind it: the server learns its length.

    Raises InputError for a name that there is not, and for sizes below one.
    """

    tokens: int = 128
    scheme: str | None = None
    inputs: int | None = None
    objective: Objective | None = None
    texts: Sequence[Text] | None = None
    hidden_states: Sequence[Sample] = field(default=(), hash=False)
    link: LinkSpeed | None = None
    preset: str = "n16"
    packing: str | None = None
    functions: str | Functions = "tacita"
    accuracy: Accuracy | None = None
    prices: Prices | None = field(default=None, hash=False)
    salt: str | None = field(default=None, repr=False)
    embeddings: str = "published"
    formats: Formats | None = None
    begin: str = ""
    reveal: str = LOGITS
    gap: float = GAP
    cache: bool = False
    nearest: int = NEAREST
    quick: bool = False

    def __post_init__(self) -> None:
        if self.tokens < 1 or (self.inputs is not None and self.inputs < 1):
            raise InputError(
                f"a plan for {self.tokens} tokens and {self.inputs} texts", hint="at least one of each"
            )
        if self.nearest < 0:
            raise InputError(f"a search for the nearest {self.nearest}", hint="a number from 0, for all")
        if isinstance(self.texts, str):
            raise InputError("calibration texts: a single string", hint="pass a list of sentences")
        require_name(self.scheme_name)
        checked = {
            "objective": objective_of(self.objective) if self.objective is not None else None,
            "texts": None if self.texts is None else tuple(self.texts),
            "hidden_states": tuple(self.hidden_states),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if (formats := self.formats) and formats.gelu not in GELU_FORMS:
            what = f"two-party mode: form {formats.gelu!r} of gelu"
            raise InputError(what, hint=nearest(formats.gelu, GELU_FORMS))
        if formats and self.scheme_name not in (BUMBLEBEE, AUTO):
            what = f"fixed-point formats of a plan of scheme {self.scheme_name}"
            raise InputError(what, hint=f"they are two parties': scheme {BUMBLEBEE}")
        candidates(self.preset)
        _ = self.variants, tuple(self.wanted), tuple(self.options)  # each raises for what no plan can be

    def __repr__(self) -> str:
        """Returns what was asked for besides defaults, in at most 300 characters."""
        wanted = [each for each in fields(self) if each.repr and getattr(self, each.name) != each.default]
        return f"PlanRequest({', '.join(f'{e.name}={getattr(self, e.name)!r:.60}' for e in wanted):.280})"

    def calibrated_for(self, texts: Sequence[Text]) -> PlanRequest:
        """Returns the request for these texts: where there are pairs among them and only single texts to
        calibrate on, those are paired with their neighbours. A second text has a token type of its own, which
        no single text shows."""
        alone = not any(len(parts_of(text)) > 1 for text in texts)
        if alone or (self.hidden_states and self.texts is None):
            return self
        return replace(self, texts=neighbours(load_texts() if self.texts is None else self.texts))

    @property
    def scheme_name(self) -> str:
        """The scheme; where none was named, auto for several inputs and no packing, else thor."""
        if self.scheme is not None:
            return self.scheme
        return AUTO if self._several and self.packing is None else "thor"

    @property
    def options(self) -> tuple[Option, ...]:
        """The options that are asked for. Raises InputError for one that no plan can have."""
        return tuple(option for kind in OPTIONS if (option := kind.of(self)))

    @property
    def goal(self) -> Objective:
        """The objective; where none was named, throughput for several inputs, else latency."""
        if self.objective is not None:
            return self.objective
        return Objective.throughput if self._several else Objective.latency

    @property
    def variants(self) -> Functions:
        """The variant of every function; the scheme's own activation where none but the default was named."""
        named = Functions.named(self.functions)
        own = SCHEMES[self.scheme_name].activation if self.scheme_name in SCHEMES else named.activation
        return replace(named, activation=own) if named.activation == "tacita" else named

    @property
    def wanted(self) -> Sequence[tuple[str, str | None]]:
        """The (scheme, packing) pairs to plan; of several the quickest is chosen. Raises InputError where no
        scheme that is wanted has the packing."""
        names = NAMES if self.scheme_name == AUTO else (self.scheme_name,)
        if pairs := [(name, one) for name in names for one in _packings(name, self.packing)]:
            return pairs
        if self.scheme_name == BUMBLEBEE:
            what = f"scheme {self.scheme_name} on packing {self.packing!r:.40}"
            raise InputError(what, hint="two parties fill no slots")
        return [(names[0], one) for one in packings_of(names[0], self.packing)]  # which raises

    @property
    def rings(self) -> Sequence[ParameterInfo]:
        """The rings that the preset stands for, the smallest first."""
        return candidates(self.preset)

    @property
    def _several(self) -> bool:
        return (self.inputs or 1) > 1


class Fields(TypedDict, total=False):
    """The fields of a plan request but its scheme, as keywords of a call."""

    tokens: int
    inputs: int | None
    objective: Objective | None
    texts: Sequence[Text] | None
    hidden_states: Sequence[Sample]
    link: LinkSpeed | None
    preset: str
    packing: str | None
    functions: str | Functions
    accuracy: Accuracy | None
    prices: Prices | None
    salt: str | None
    embeddings: str
    formats: Formats | None
    begin: str
    reveal: str
    gap: float
    cache: bool
    nearest: int
    quick: bool


def _packings(scheme: str, packing: str | None) -> Sequence[str | None]:
    """Returns the requested packings that the scheme has; None stands for a scheme that packs nothing."""
    if scheme == BUMBLEBEE:
        return (None,) if packing in (None, AUTO) else ()
    available = packing in (None, AUTO, *scheme_named(scheme).packings)
    return packings_of(scheme, packing) if available else ()
