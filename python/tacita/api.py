"""The Python interface: from a model folder to an encrypted answer. `import tacita` offers all of it.

>>> import tempfile
>>> import tacita
>>> model, work, public = tacita.load(), tempfile.mkdtemp(), tempfile.mkdtemp()
>>> texts = ["a film of quiet beauty", "a waste of time"]
>>> plan = tacita.plan(model, tokens=16, preset="insecure_toy_n11", texts=texts)  # default: 128-bit security
>>> published = tacita.publish(plan, model, public)                # what clients get: no weights
>>> client = tacita.Client(public, work, allow_insecure=True)      # makes and keeps the secret key
>>> client.keygen()
>>> request = client.encrypt(texts[0])
>>> server = tacita.Server(plan, model, work, allow_insecure=True)  # holds public material only
>>> response = server.evaluate()
>>> client.decrypt().label
'positive'

`allow_insecure` is for the toy ring of this example, which runs in seconds; without it presets below 128
bits are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np
import numpy.typing as npt

from tacita import checkpoint
from tacita.bar import Estimate, draw, reporting
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.reference import reference
from tacita.client import Answer, Client
from tacita.client.session import embedded
from tacita.data import DEFAULT_MODEL
from tacita.errors import InputError
from tacita.evaluate import Server
from tacita.evaluate.session import MEMORY_GB
from tacita.packings.lowering import in_slots
from tacita.planning.calibrate.calibrate import Sample
from tacita.planning.circuit import require_model
from tacita.planning.request import Fields, Objective, PlanRequest, require_fields
from tacita.plans.answers import understood
from tacita.plans.commitment import LinkSpeed
from tacita.plans.plan import Plan
from tacita.plans.public_folder import Public, open_public, public_of, write_public
from tacita.resources import freed_memory_kept
from tacita.schemes.base import AnyPlan, Report, silent
from tacita.schemes.choose import Choice
from tacita.schemes.choose import choose_plan as choose
from tacita.schemes.registry import scheme_of
from tacita.texts.embed import Text
from tacita.two_party.client import TwoPartyClient
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.server import TwoPartyServer

__all__ = [
    "DEFAULT_MODEL",
    "Answer",
    "Choice",
    "Client",
    "Objective",
    "Plan",
    "PlanRequest",
    "Public",
    "Server",
    "TwoPartyClient",
    "TwoPartyPlan",
    "TwoPartyServer",
    "choose_plan",
    "classify_batch_locally",
    "classify_locally",
    "estimate",
    "load",
    "open_public",
    "plan",
    "public_of",
    "publish",
    "reference_logits",
]

Array = npt.NDArray[np.float64]
Model = Checkpoint | Path | str
Files = Literal["thor", "leaf", "arion", "moai"]


def load(
    folder: Path | str | None = None,
    *,
    revision: str | None = None,
    pooling: str | None = None,
    embeddings: bool = True,
) -> Checkpoint:
    """Loads the model of a Hugging Face folder, of a name that comes with the package ("sst2-tiny",
    "austen-tiny"; default: what the variable TACITA_MODEL names, else sst2-tiny), or of the Hugging Face Hub
    ("org/name", fetched into the Hub's own cache).

    revision: of a model of the Hub, a branch, a tag or a commit (default: main). The answer's `name` ends
    with the commit.
    pooling: what an embedding is read from: "pooler", "cls" or "mean" (default: what the folder says).
    embeddings: False for a model that starts from hidden states. Raises CheckpointError.
    """
    named = DEFAULT_MODEL if folder is None else folder
    return checkpoint.load(named, revision=revision, pooling=pooling, embeddings=embeddings)


class PlanKeywords(Fields, total=False):
    """The keywords of a call that plans: the fields of a plan request, and those that `choose_plan`
    describes."""

    progress: Report | None
    processes: int


@overload
def plan(
    model: Model | None = ...,
    request: None = ...,
    *,
    scheme: Literal["bumblebee"],
    **how: Unpack[PlanKeywords],
) -> TwoPartyPlan: ...
@overload
def plan(
    model: Model | None = ..., request: None = ..., *, scheme: Files = ..., **how: Unpack[PlanKeywords]
) -> Plan: ...
@overload
def plan(
    model: Model | None = ...,
    request: PlanRequest | None = ...,
    *,
    scheme: str | None = ...,
    **how: Unpack[PlanKeywords],
) -> AnyPlan: ...
def plan(
    model: Model | None = None,
    request: PlanRequest | None = None,
    *,
    scheme: str | None = None,
    **how: Unpack[PlanKeywords],
) -> AnyPlan:
    """Calibrates, places and prices a run of `model`.

    The keywords are the fields of `PlanRequest`, and change those of a plan request that is given; without
    both the scheme is thor. Returns a Plan, or a TwoPartyPlan where the scheme is bumblebee. Cost and errors
    are those of `choose_plan`.
    """
    return choose_plan(model, request or PlanRequest(scheme="thor"), scheme=scheme, **how).plan


def choose_plan(
    model: Model | None = None,
    request: PlanRequest | None = None,
    *,
    scheme: str | None = None,
    **how: Unpack[PlanKeywords],
) -> Choice:
    """Makes a plan as `plan`, and returns it with the numbers that decided. Cost and errors are those of
    `schemes.choose.choose_plan`.

    progress: called with reports, None for none; by default they move a bar on stderr where that is a
    terminal or a notebook. processes: how many calibrate on many texts; a script that asks for more than
    one needs `if __name__ == "__main__"`. Raises TypeError for an unknown keyword.
    """
    fields: dict[str, Any] = {"progress": draw, "processes": 1, **how}
    progress, processes = fields.pop("progress"), fields.pop("processes")
    require_fields(fields, ("progress", "processes", "scheme"))
    fields |= {} if scheme is None else {"scheme": scheme}
    loaded = model if isinstance(model, Checkpoint) else load(model)
    with reporting(progress, "plan") as report, freed_memory_kept():
        return choose(loaded, replace(request or PlanRequest(), **fields), report, processes)


def publish(plan: AnyPlan, model: Checkpoint, folder: Path | str) -> str:
    """Writes what clients of this plan get: plan, tokenizer, embedding tables. Returns the folder's sha256 in
    hex.

    Everything in the folder is given away. Raises FileError for a folder that holds other files,
    CheckpointError for a model without a tokenizer, PlanError for another model than the plan's, InputError
    for a plan of two parties.
    """
    if not isinstance(plan, Plan):
        raise unpublished(plan.scheme)
    require_model(plan, model)
    return write_public(public_of(plan, model), Path(folder))


def estimate(
    plan: AnyPlan,
    inputs: int | None = None,
    *,
    link: LinkSpeed | None = None,
    memory: float = MEMORY_GB,
) -> Estimate:
    """Estimates what a run of a plan would cost, without running it. A notebook draws the result.

    inputs: texts to answer (default: one request full). link: between client and server; without one nothing
    is sent. memory: GB that the server stays within. Returns the figures that `tacita estimate --json`
    writes: seconds, bytes, and by scheme stages, keys, bootstraps and error.
    """
    return Estimate(scheme_of(plan.scheme).estimate(plan, inputs, link=link, memory=memory))


def unpublished(scheme: str) -> InputError:
    """Returns the error for publishing a plan of two parties."""
    return InputError(
        f"publish: {scheme} answers over a connection, and its server sends clients the public part itself",
        hint="tacita serve, and tacita classify --connect",
    )


def reference_logits(
    plan: AnyPlan, model: Checkpoint, text: Text | None = None, *, hidden_states: Array | None = None
) -> Array:
    """Runs the float64 model and returns its answer, shape (outputs,), or (real tokens, outputs) where the
    model answers for every token."""
    hidden, mask = embedded(plan, model, text, hidden_states)
    logits = reference(in_slots(model) if plan.backwards else model, hidden, mask).logits
    return logits[: int(mask.sum())] if logits.ndim > 1 else logits


def classify_locally(
    plan: AnyPlan,
    model: Checkpoint,
    text: Text | None = None,
    *,
    hidden_states: Array | None = None,
    backend: str = "plain",
    seed: int = 0,
    progress: Report = silent,
    exact: Collection[str] = (),
) -> Answer:
    """Runs the plan on `plain` (exact slots) or `sim` (with the engine's noise); nothing is encrypted.

    exact: of an ablation, "softmax", "norm" and functions of the model by name, such as "gelu": they are
    computed exactly, not by their approximations; other names have no meaning.
    Raises InputError for another backend: on `ckks`, where the text is a secret, `Client` and `Server` run
    the steps.
    """
    samples = [embedded(plan, model, text, hidden_states)]
    (answer,) = _in_the_clear(plan, model, [text], samples, backend, seed, progress, frozenset(exact))
    return answer


def classify_batch_locally(
    plan: AnyPlan,
    model: Checkpoint,
    texts: Sequence[Text] = (),
    *,
    hidden_states: Sequence[Array] = (),
    backend: str = "plain",
    seed: int = 0,
    progress: Report = silent,
) -> list[Answer]:
    """Runs the plan on up to plan.batch texts or hidden states at once. Arguments: as of
    `classify_locally`."""
    samples = [embedded(plan, model, text, None) for text in texts]
    samples += [embedded(plan, model, None, states) for states in hidden_states]
    if not 1 <= len(samples) <= plan.batch:
        raise InputError(
            f"classify: {len(samples)} texts, a batch holds 1 to {plan.batch}", hint="split them"
        )
    sources = [*texts, *[None] * len(hidden_states)]
    return _in_the_clear(plan, model, sources, samples, backend, seed, progress)


def _in_the_clear(
    plan: AnyPlan,
    model: Checkpoint,
    texts: Sequence[Text | None],
    samples: Sequence[Sample],
    backend: str,
    seed: int,
    progress: Report,
    exact: frozenset[str] = frozenset(),
) -> list[Answer]:
    answers = scheme_of(plan.scheme).in_the_clear(plan, model, samples, backend, seed, progress, exact)
    read = [understood(plan, answer, model, text) for answer, text in zip(answers, texts, strict=True)]
    return [replace(answer, privacy=f"none: {backend} encrypts nothing") for answer in read]
