"""The frozen plan: everything that client and server must agree on, and nothing secret.

Written once by `tacita plan`, read by both parties. The hash covers every field but the prediction, so that
two machines with other price tables still hold the same plan.
"""

from __future__ import annotations

import hashlib
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from tacita.bar import plan_card
from tacita.errors import FileError, PlanError
from tacita.extras import AT_DEFAULT
from tacita.layouts.rows import MAX_TOKENS
from tacita.layouts.runs import Layout
from tacita.limits import Above, Each, Matches, OneOf, Range, Size
from tacita.plans import json_fields
from tacita.plans.commitment import LINKS, LinkSpeed, salt_beside
from tacita.plans.error import (
    MOST_DECIMALS,
    NO_TEXTS,
    UNKNOWN,
    ErrorBound,
    Population,
    between,
    finer,
    finest,
)
from tacita.plans.json_fields import NOT_STORED, canonical, from_json, to_json
from tacita.plans.options import MOST_BOUND, options_of
from tacita.plans.prices.cost import BOOTSTRAPS
from tacita.texts.embedding import MAX_CLASSES, MAX_ENDS, MAX_HIDDEN, MAX_LAYERS, FrontConfig
from tacita.texts.task import CHOICE, PROBLEMS, TASKS, is_vector

FORMAT = "tacita-plan"
TWO_PARTIES = "tacita-two-party"  # of the other kind: `two_party.plan.plan`
VERSION = 7
MAX_BYTES = 64 << 20
MOST_TENSORS = 16  # named by a stage; the circuits have up to 5
MOST_CIPHERTEXTS = 4 * MAX_HIDDEN  # of one tensor: the inner features of a batch, each in its own
MOST_COUNT = 1 << 40  # operations of a stage
MOST_SECONDS, MOST_MEMORY = 1e9, 1 << 50  # of a prediction, in bytes
KINDS = frozenset({"real", "complex"})
# Counted operations after which tensors are higher than before
THROUGH = (*BOOTSTRAPS, "coefficient_refresh")
AGREEMENT, LEAST_AGREEMENT = 2.0**10, 0.002  # times the noise of a logit; of a logit
REMAKE = "make it again with `tacita plan`"


@dataclass(frozen=True)
class ModelInfo:
    """The checkpoint a plan was made for.

    commitment: salted hash of its weights and configuration, hex (see `plans.commitment`). embeddings: how a
    client embeds a text; None for a model that starts from hidden states.
    normalise: whether the client divides the decrypted answer by its length. task, problem: see
    `models.config`. head_size: features of a head where heads do not share the hidden ones, else 0. ends:
    tokens that end a text, of a decoder; None where the plan does not say.
    """

    name: str
    commitment: Annotated[str, Matches("[0-9a-f]{64}")]
    architecture: str
    layers: Annotated[int, Range(1, MAX_LAYERS)]
    hidden: Annotated[int, Range(1, MAX_HIDDEN, "hidden size")]
    heads: Annotated[int, Range(1, MAX_HIDDEN)]
    intermediate: Annotated[int, Range(1, 4 * MAX_HIDDEN, "intermediate size")]
    activation: str
    pooling: str
    normalise: bool
    labels: Annotated[tuple[str, ...], Size(MAX_CLASSES)]
    embeddings: FrontConfig | None
    task: Annotated[str, OneOf(TASKS)] = field(default="text", metadata=AT_DEFAULT)
    problem: Annotated[str, OneOf(PROBLEMS)] = field(default="single_label", metadata=AT_DEFAULT)
    head_size: Annotated[int, Range(0, MAX_HIDDEN)] = field(default=0, metadata=AT_DEFAULT)
    ends: Annotated[tuple[int, ...] | None, Size(MAX_ENDS)] = field(default=None, metadata=AT_DEFAULT)


@dataclass(frozen=True)
class ParameterInfo:
    """Encryption parameters. log_qp: bits of the whole modulus. failure_log2: of one bootstrap.

    security_bits: classical, by the table of ePrint 2024/463; below 128 the preset's name says insecure.
    """

    preset: str
    log_n: int
    slots: int
    max_level: int
    log_qp: float
    security_bits: int
    secret: str
    failure_log2: float


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of the request or response: so many ciphertexts at this level, of kind "real" or "complex"."""

    name: str
    count: Annotated[int, Range(1, MOST_CIPHERTEXTS, "ciphertexts")]
    level: Annotated[int, Range(0)]
    kind: Annotated[str, OneOf(("real",))]


@dataclass(frozen=True)
class PlacedStage:
    """A stage as it will run: see `plans.prices.Step`."""

    name: str
    bootstraps: tuple[str, ...]
    kinds: Annotated[tuple[str, ...], Size(MOST_CIPHERTEXTS), Each(OneOf(KINDS, "kinds of bootstraps"))]
    levels: Annotated[Mapping[str, int], Size(MOST_TENSORS), Each(Range(0, name="levels"))]
    out_levels: Annotated[Mapping[str, int], Size(MOST_TENSORS), Each(Range(0, name="levels"))]
    counts: Annotated[Mapping[str, int], Each(Range(0, MOST_COUNT, "counts"))]

    @property
    def through(self) -> int:
        """Bootstraps inside the stage, after which tensors are higher than before."""
        return sum(self.counts.get(op, 0) for op in THROUGH)


@dataclass(frozen=True)
class Prediction:
    """What a run should cost on the machine of the price table.

    stage_seconds, stage_bytes: one per placed stage, bootstraps
    included, and its working memory beside keys; seconds: step -> seconds; bytes: evaluation_keys,
    request, response (files) and server_memory, client_memory (peak). error: of an answer's numbers.
    """

    machine: str
    threads: Annotated[int, Range(1, 1 << 16)]
    stage_seconds: Annotated[tuple[float, ...], Each(Range(0, MOST_SECONDS, "seconds"))]
    stage_bytes: Annotated[tuple[int, ...], Each(Range(0, MOST_MEMORY, "bytes"))]
    seconds: Annotated[Mapping[str, float], Each(Range(0, MOST_SECONDS, "seconds"))]
    bytes: Annotated[Mapping[str, int], Each(Range(0, MOST_MEMORY, "bytes"))]
    error: ErrorBound = NO_TEXTS


@dataclass(frozen=True)
class Plan:
    """A plan as its file holds it; see the module's docstring.

    scheme: a name in `plans.scheme`. batch: texts in a request, 1 for a packing of one text. lanes: features
    side by side in a ciphertext of a batch (`layouts.columns`), else 1. circuit: the calibrated
    intervals and approximations, as JSON
    data: the server's, a client reads nothing of it. layout: where the request takes its input and the
    response leaves its answers. answer: bound of an answer's magnitude, by calibration.

    rotations: (step, highest level at which the key is used), conjugation excluded. noise: of a logit after
    decryption, the largest that the simulation saw (`planning.trial`). decimals: the most whose step
    stays far above it; logits are rounded before anyone sees them, to that step or to a half or fifth of it
    that is as far above (see `logit_step` and docs/threat-model.md). population: how often texts leave the
    calibrated intervals. gap: where the client gets the likeliest word and no logits, the distance from which
    two logits are told apart; 0 where it gets the logits. kept: of a text that is asked row by row, what the
    server keeps of one request for the next, at the level at which every step takes it and leaves it; none
    where a request is a whole text. options: the numbers of further options, by their names
    (`plans.options`). salt: opens the commitment to the weights; no part of the file, and empty
    at a client.
    """

    model: ModelInfo
    tokens: Annotated[int, Range(2, MAX_TOKENS)]
    scheme: str
    batch: int
    lanes: int
    parameters: ParameterInfo
    circuit: Mapping[str, Any]
    layout: Layout
    answer: Annotated[float, Above(0.0, MOST_BOUND, "layout: bounds")]
    stages: tuple[PlacedStage, ...]
    rotations: tuple[tuple[int, int], ...]
    request: tuple[TensorInfo, ...]
    response: tuple[TensorInfo, ...]
    noise: float
    decimals: Annotated[int, Range(0, MOST_DECIMALS)]
    prediction: Prediction
    population: Population = UNKNOWN
    gap: float = field(default=0.0, metadata=AT_DEFAULT)
    kept: tuple[TensorInfo, ...] = field(default=(), metadata=AT_DEFAULT)
    options: Mapping[str, float] = field(default_factory=dict, metadata=AT_DEFAULT)
    salt: str = field(default="", repr=False, compare=False, metadata=NOT_STORED)

    @cached_property
    def hash(self) -> str:
        """sha256, hex, of the canonical JSON (sorted keys, no spaces) without the prediction."""
        data = to_json(self)
        del data["prediction"]
        return hashlib.sha256(canonical(data)).hexdigest()

    def __repr__(self) -> str:
        """Returns a summary of at most 300 characters."""
        sizes = f"tokens={self.tokens}, batch={self.batch}"
        return f"Plan({self.name[:80]!r}, {self.scheme}, {sizes}, {self.privacy})"

    def _repr_html_(self) -> str:
        return plan_card(self, LINKS)

    @property
    def privacy(self) -> str:
        """What protects a text that is asked by this plan."""
        return f"{self.parameters.security_bits} bits ({self.scheme}, preset {self.parameters.preset})"

    @property
    def step(self) -> float:
        """The least step that hides the noise; see `plans/error.py`."""
        return finest(self.noise, self.decimals)

    @property
    def logit_step(self) -> float:
        """The step to which logits are rounded (see `plans/error.py`); of a choice that of its decimals,
        which are few on purpose."""
        if self.task == CHOICE:
            return 10.0**-self.decimals
        return finer(self.step) if is_vector(self) else between(self.noise, self.decimals)

    @property
    def agreement(self) -> float:
        """How far the copies of an answer may be apart, and what belongs to be zero off: far above the noise,
        and far below what damage does. In a choice between words that are alike noise counts for more."""
        return max(AGREEMENT * self.noise, 0.1 * self.logit_step if self.task == CHOICE else LEAST_AGREEMENT)

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def family(self) -> str:
        """The model's."""
        return self.model.architecture

    @property
    def backwards(self) -> bool:
        """Whether a text's rows are in reverse; see `plans.scheme.PlanHeader`."""
        return bool(self.model.embeddings and self.model.embeddings.backwards)

    @property
    def hidden(self) -> int:
        """Width of the model's hidden states."""
        return self.model.hidden

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's labels; none where it has no classifier."""
        return self.model.labels

    @property
    def normalise(self) -> bool:
        """Whether the client divides an answer by its length."""
        return self.model.normalise

    @property
    def task(self) -> str:
        """What the answer is about (`texts.task`): as the model says, or as an option does."""
        return next((option.task for option in options_of(self) if option.task), self.model.task)

    @property
    def problem(self) -> str:
        """How the answer's numbers are read (`texts.task`)."""
        return self.model.problem

    @property
    def ends(self) -> tuple[int, ...] | None:
        """Tokens that end a text; None where the plan does not say."""
        return self.model.ends

    @property
    def packing(self) -> str:
        """The packing of the circuit."""
        return self.layout.packing

    def predicted_seconds(self, link: LinkSpeed | None = None) -> float:
        """Returns the seconds of evaluating a request and, over a link, of sending request and response."""
        evaluate = self.prediction.seconds["evaluate"]
        return evaluate + (link.seconds(self.predicted_bytes(), 1) if link else 0.0)

    def predicted_bytes(self, link: LinkSpeed | None = None) -> int:
        """Returns the bytes of request and response; the evaluation keys are sent once."""
        return self.prediction.bytes["request"] + self.prediction.bytes["response"]

    @property
    def coefficients(self) -> int | None:
        """Tokens of its stages' products of coefficients, which have keys of their own; None without any."""
        multiplied = any(stage.counts.get("coefficient_product", 0) for stage in self.stages)
        return self.tokens if multiplied else None

    @property
    def bootstraps(self) -> int:
        """Ciphertexts bootstrapped in a run; two real ones that share a bootstrap count once."""
        return sum(len(stage.kinds) + stage.through for stage in self.stages)

    def to_text(self) -> str:
        """The file's content: indented JSON with format, version and hash in front."""
        head = {"format": FORMAT, "version": VERSION, "hash": self.hash}
        return json.dumps({**head, **to_json(self)}, indent=1) + "\n"

    @staticmethod
    def load(path: Path) -> Plan:
        """Reads and checks a plan file, with the salt beside it if it is there.

        Raises FileError: missing, too large, no plan, of another version, altered; or no salt in the salt's
        place.
        """
        return parse(read_capped(path), str(path), salt_beside(path))


def parse(text: str, where: str, salt: str = "") -> Plan:
    """Text -> checked plan. where: named in errors. salt: see `Plan`.

    Raises FileError, whatever the text is; see `check` for what is refused.
    """
    from tacita.plans.check import (
        check,  # which needs the presets, which are made of this module's ParameterInfo
    )

    try:
        data = json_fields.loads(text)
    except ValueError as error:
        raise FileError(f"{where}: not a complete plan ({error})", hint=REMAKE) from error
    form = data.pop("format", None) if isinstance(data, dict) else None
    if form == TWO_PARTIES:
        raise FileError(
            f"{where}: a plan of two parties, who pass no files", hint="tacita serve, classify --connect"
        )
    if form != FORMAT:
        raise FileError(f"{where}: not a plan file", hint="expected a file made by `tacita plan`")
    if (version := data.pop("version", None)) != VERSION:
        raise FileError(
            f"{where}: plan version {version!s:.20}, this program reads {VERSION}", hint="make it again"
        )
    claimed = data.pop("hash", None)
    try:
        plan = typing.cast(Plan, from_json(Plan, data))
    except (KeyError, TypeError, ValueError, PlanError) as error:
        raise FileError(f"{where}: damaged plan ({error!s:.300})", hint=REMAKE) from error
    if plan.hash != claimed:
        raise FileError(
            f"{where}: content does not match its hash", hint="the file was altered; make it again"
        )
    check(plan, where)
    return replace(plan, salt=salt)


def read_capped(path: Path) -> str:
    """The text of a plan file. Raises FileError: missing, too large, not UTF-8."""
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise FileError(
                f"{path}: {size} bytes, a plan has at most {MAX_BYTES}", hint="is this another file?"
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(
            f"{path}: cannot be read as a plan ({error})", hint="make it with `tacita plan`"
        ) from error
