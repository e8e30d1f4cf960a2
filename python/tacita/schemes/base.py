"""What a scheme is: how to plan for it, what a run would cost, and both of its sides.

>>> import tempfile
>>> import tacita
>>> from tacita.schemes.registry import scheme_of
>>> model, texts = tacita.load(), ["a film of quiet beauty", "a waste of time"]
>>> plan = tacita.plan(model, scheme="bumblebee", tokens=16, texts=texts)
>>> scheme = scheme_of(plan.scheme)
>>> (scheme.several, scheme.connected, scheme.estimate(plan, 3)["inputs"])
(False, True, 3)
>>> with scheme.private(plan, model, Place(Path(tempfile.mkdtemp()))) as private:    # both sides, here
...     answers, seconds = private.answer(texts[:1], "")
>>> answers[0].label
'positive'
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tacita.checkpoint import Checkpoint
from tacita.errors import InputError, PrivacyWarning, nearest
from tacita.evaluate.keyring import server_bytes
from tacita.evaluate.session import MEMORY_GB
from tacita.planning.calibrate.calibrate import Sample
from tacita.planning.request import PlanRequest
from tacita.planning.survey import Subject
from tacita.plans.answers import Answer
from tacita.plans.commitment import SALT_FILE, LinkSpeed
from tacita.plans.engine import require_secure
from tacita.plans.files import replacing, write_text
from tacita.plans.plan import Plan, read_capped
from tacita.plans.scheme import BUMBLEBEE
from tacita.progress import Progress
from tacita.progress import silent as silent
from tacita.resources import GB
from tacita.texts.embed import Text
from tacita.two_party.plan.check import parse_plan
from tacita.two_party.plan.plan import FORMAT, TwoPartyPlan

AnyPlan = Plan | TwoPartyPlan
P = TypeVar("P", Plan, TwoPartyPlan)
Report = Callable[[Progress], None]
Seconds = dict[str, float]  # by step
CLEAR = ("plain", "sim")  # interpreters that encrypt nothing
REAL = "ckks"  # the backend that stands for the real thing of any scheme


def no_bar(_: str) -> AbstractContextManager[Report]:
    """Progress that nobody sees."""
    return nullcontext(silent)


@dataclass(frozen=True)
class Place:
    """Where both sides of a run work, and with what.

    folder: of plan, keys, requests and responses, where the scheme has any. threads: 0 for all cores.
    memory: GB. allow_insecure: admits parameters below 128 bits. keep_key: use the secret key that is in
    the folder already. bar: progress of a step by its title. device: what evaluates (`device_number`).
    """

    folder: Path
    threads: int = 0
    memory: float = MEMORY_GB
    allow_insecure: bool = False
    keep_key: bool = False
    bar: Callable[[str], AbstractContextManager[Report]] = no_bar
    device: str = "cpu"


@dataclass(frozen=True)
class Private:
    """Both sides on this machine, the client's secrets with them.

    answer: texts of one request, at most `plan.batch`, and a title for its progress -> answers and seconds
    by step. seconds: of what was done once, before the first request.
    """

    answer: Callable[[Sequence[Text], str], tuple[list[Answer], Seconds]]
    seconds: Mapping[str, float] = field(default_factory=dict)


class Scheme(Protocol[P]):
    """name: in `plans.scheme`. several: a request holds many texts. connected: both sides compute together,
    message by message, so that a connection takes the place of files and keys.
    """

    @property
    def name(self) -> str: ...
    @property
    def several(self) -> bool: ...
    @property
    def connected(self) -> bool: ...

    def plan(self, subject: Subject) -> P:
        """Fits, places, predicts. Raises ShapeError, PlanError, FitError, CheckpointError: see
        `choose.REFUSALS`.
        """

    def estimate(
        self, plan: P, inputs: int | None = None, *, link: LinkSpeed | None = None, memory: float = MEMORY_GB
    ) -> dict[str, Any]:
        """Returns what a run would cost as JSON fields. inputs: texts to classify (default: one request
        full)."""

    def client(self, *place: Any, **options: Any) -> Any:
        """The side that holds the text: of a public folder and a work folder, or of a connection."""

    def server(self, plan: P, model: Checkpoint, *place: Any, **options: Any) -> Any:
        """The side that holds the weights."""

    def in_the_clear(
        self,
        plan: P,
        model: Checkpoint,
        samples: Sequence[Sample],
        backend: str,
        seed: int,
        progress: Report,
        exact: frozenset[str] = frozenset(),
    ) -> list[Answer]:
        """Returns answers on "plain" (the meaning) or "sim" (with the noise or the roundings); nothing is
        encrypted.

        samples: (hidden states (tokens, hidden), mask (tokens,)), at most `plan.batch`. exact: functions that
        are computed exactly, of `blocks.floats.exact_names`. Raises InputError.
        """

    def private(self, plan: P, model: Checkpoint, place: Place) -> AbstractContextManager[Private]:
        """Opens the encrypted run, both sides on this machine. Raises PlanError for parameters below 128 bits
        unless the place allows them, ResourceError."""


def warn_unprotected(verb: str, backend: str, depth: int) -> None:
    """Warns once for each place in a user's code that names no backend. depth: of that place, as the
    `stacklevel` of `warnings.warn`."""
    message = f"{verb}: backend {backend!r} encrypts nothing; name it, or 'ckks' for a private answer"
    warnings.warn(message, PrivacyWarning, stacklevel=depth)


def require_allowed(request: PlanRequest, backend: str, *, allow_insecure: bool) -> None:
    """Checks the rings before a plan is made. Raises PlanError for rings below 128 bits that something would
    be encrypted in, unless they are allowed, InputError for a quick plan, which tries its noise once."""
    if backend == REAL and request.scheme_name != BUMBLEBEE:
        if request.quick:
            raise InputError("a quick plan of what is encrypted", hint="leave quick out")
        for ring in request.rings:
            require_secure(ring, allow_insecure=allow_insecure)


def unknown_backend(backend: str) -> InputError:
    """The error for a backend that is none in the clear."""
    return InputError(
        f"no backend {backend!r} in the clear", hint=f"{nearest(backend, CLEAR)}; ckks encrypts"
    )


def cost_of(plan: AnyPlan, requests: int) -> Progress:
    """What so many requests will take, as the report before the first: in words and in seconds."""
    once, each = 0.0, plan.predicted_seconds()
    words = f"{plan.scheme}: {requests} x {each:.1f} s"
    if isinstance(plan, Plan):
        once, keys = plan.prediction.seconds["keygen"], plan.prediction.bytes["evaluation_keys"] / GB
        memory = server_bytes(plan) / GB
        words += f", keys {once:.1f} s; {memory:.1f} GB of memory, {keys:.1f} GB of disk"
        words += f", {plan.prediction.bytes['request'] / 1e6:.1f} MB a row" if plan.kept else ""
    return Progress(words, 0, requests, 0.0, once + requests * each)


# The plan of a server's folder, of either kind: plan.json, which anybody may read, and for a plan of
# ciphertexts the salt of its commitment, which stays there.

TWO_PARTIES = f'"format":"{FORMAT}"'  # in the one spelling of a plan of two parties


def save(plan: AnyPlan, path: Path) -> None:
    """Writes plan and salt (mode 0600) beside each other, the plan last: `load` reads both. Raises
    FileError.
    """
    if not isinstance(plan, Plan):
        return write_text(path, plan.to_bytes().decode())
    if plan.salt:
        with replacing(path.with_name(SALT_FILE), mode=0o600) as temporary:
            temporary.write_text(plan.salt + "\n", encoding="ascii")
    write_text(path, plan.to_text())


def load(path: Path) -> AnyPlan:
    """Reads and checks a plan of either kind. Raises FileError: missing, too large, no plan, altered."""
    text = read_capped(path)
    return parse_plan(text.encode()) if TWO_PARTIES in text else Plan.load(path)
