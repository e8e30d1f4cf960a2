"""The Python interface: from a model folder to an encrypted answer.

>>> import tempfile
>>> from tacita import api
>>> model, work = api.load(api.DEFAULT_MODEL), tempfile.mkdtemp()
>>> texts = ["a film of quiet beauty", "a waste of time"]
>>> plan = api.plan(model, tokens=16, preset="insecure_toy_n11", texts=texts)  # default: "n16", 128 bits
>>> public = tempfile.mkdtemp()
>>> published = api.publish(plan, model, public)                            # what clients get: no weights
>>> client = api.Client(public, work, allow_insecure=True)                  # makes and keeps the secret key
>>> client.keygen()
>>> request = client.encrypt(texts[0])
>>> response = api.Server(plan, model, work, allow_insecure=True).evaluate()  # holds public material only
>>> client.decrypt().label
'positive'

`allow_insecure` is for the toy ring of this example, which runs in seconds; without it presets below 128 bits
are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacita.approx.variants.functions import Functions
from tacita.calibrate.calibrate import Sample
from tacita.checkpoint import Checkpoint, load
from tacita.client import Answer, Client
from tacita.client.session import embedded, judge
from tacita.client.two_party import TwoPartyAnswer, TwoPartyClient
from tacita.data import DEFAULT_MODEL
from tacita.errors import InputError
from tacita.front.embed import Text
from tacita.models.reference import reference
from tacita.placement.cost import Prices
from tacita.planning.build import RESPONSE
from tacita.planning.choose import Choice, Objective, Option, objective_of, plan_best
from tacita.planning.circuit import circuit_of, make_plan, require_model
from tacita.planning.two_party import make_two_party_plan
from tacita.plans.plan import ParameterInfo, Plan
from tacita.plans.presets import candidates, noise_of
from tacita.plans.scheme import AUTO, SCHEMES, shape_of
from tacita.plans.two_party.plan import TwoPartyPlan
from tacita.protocol.public_folder import Public, open_public, public_of, write_public
from tacita.run import executor
from tacita.run.executor import Progress
from tacita.server import Server
from tacita.server.two_party import TwoPartyServer
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

__all__ = [
    "DEFAULT_MODEL",
    "Answer",
    "Choice",
    "Client",
    "Objective",
    "Plan",
    "Public",
    "Server",
    "TwoPartyAnswer",
    "TwoPartyClient",
    "TwoPartyPlan",
    "TwoPartyServer",
    "choose_plan",
    "classify_batch_locally",
    "classify_locally",
    "load",
    "make_two_party_plan",
    "open_public",
    "plan",
    "public_of",
    "publish",
    "reference_logits",
]

Array = npt.NDArray[np.float64]


def plan(
    model: Checkpoint | Path | str = DEFAULT_MODEL,
    *,
    tokens: int = 128,
    preset: str = "n16",
    scheme: str = "thor",
    packing: str | None = None,
    inputs: int | None = None,
    objective: Objective = Objective.throughput,
    functions: str = "tacita",
    texts: Sequence[str] | None = None,
    prices: Prices | None = None,
    salt: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    processes: int = 1,
) -> Plan:
    """Calibrates, places and prices a run of `model` at `tokens` tokens; see `choose_plan`."""
    return choose_plan(
        model,
        tokens=tokens,
        preset=preset,
        scheme=scheme,
        packing=packing,
        inputs=inputs,
        objective=objective,
        functions=functions,
        texts=texts,
        prices=prices,
        salt=salt,
        progress=progress,
        processes=processes,
    ).plan


def choose_plan(
    model: Checkpoint | Path | str = DEFAULT_MODEL,
    *,
    tokens: int = 128,
    preset: str = "n16",
    scheme: str = "auto",
    packing: str | None = None,
    inputs: int | None = None,
    objective: Objective = Objective.throughput,
    functions: str = "tacita",
    texts: Sequence[str] | None = None,
    prices: Prices | None = None,
    salt: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    processes: int = 1,
) -> Choice:
    """The plan of a scheme, or with "auto" of the quickest one, beside the numbers that decided.

    scheme: thor (one text a request), arion, moai (a batch), auto. packing: rows (the default) or
    multidiagonal for thor, auto for the quicker one. inputs: texts to expect (default: one for
    auto and as many as one lane holds for a batch). objective: what auto keeps short. preset: a name, or
    "leveled" for the smallest secure ring on which the circuit fits without bootstrapping. functions:
    approximations of "tacita", "moai" or "arion".
    texts: calibration sentences (default: those shipped with the model). processes: that calibrate on many
    texts; a script that asks for more than one needs `if __name__ == "__main__"`. prices: default the
    measured table for the ring, else formulas. salt: of the commitment to the weights, by default a fresh
    one; with the same one the same input gives the same plan. Raises CheckpointError, InputError, ShapeError
    (sizes that the packing does not admit), PlanError.
    """
    infos, chosen, objective = candidates(preset), Functions.of(functions), objective_of(objective)
    checkpoint = model if isinstance(model, Checkpoint) else load(model)
    if AUTO in (scheme, packing):
        return plan_best(
            checkpoint,
            infos,
            prices,
            tokens=tokens,
            inputs=inputs or 1,
            schemes=tuple(SCHEMES) if scheme == AUTO else (scheme,),
            packing=packing,
            objective=objective,
            texts=texts,
            functions=chosen,
            salt=salt,
            progress=progress,
            processes=processes,
        )
    made = make_plan(
        checkpoint,
        infos,
        prices,
        tokens=tokens,
        scheme=scheme,
        packing=packing,
        inputs=inputs,
        texts=texts,
        functions=chosen,
        salt=salt,
        progress=progress,
        processes=processes,
    )
    return Choice((Option(scheme, inputs or made.batch, made),), objective)


def publish(plan: Plan, model: Checkpoint, folder: Path | str) -> str:
    """Writes what clients of this plan get: plan, tokenizer, embedding tables; returns the folder's sha256,
    hex.

    Everything in the folder is given away. Raises FileError for a folder that holds other files,
    CheckpointError for a model without a tokenizer, PlanError for another model than the plan's.
    """
    require_model(plan, model)
    return write_public(public_of(plan, model), Path(folder))


def describe(preset: str) -> ParameterInfo:
    """A preset's figures, from the table that the tests hold equal to the engine. Raises InputError for an
    unknown name."""
    return candidates(preset)[0]


def reference_logits(
    plan: Plan, model: Checkpoint, text: Text | None = None, *, hidden_states: Array | None = None
) -> Array:
    """The float64 model's answer, shape (outputs,)."""
    hidden, mask = embedded(plan, model, text, hidden_states)
    return reference(model, hidden, mask).logits


def classify_locally(
    plan: Plan,
    model: Checkpoint,
    text: Text | None = None,
    *,
    hidden_states: Array | None = None,
    backend: str = "plain",
    seed: int = 0,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Answer:
    """The plan's circuit on `plain` (its meaning) or `sim` (with the engine's noise); nothing is encrypted.

    Raises InputError for another backend: on `ckks`, where the text is a secret, `Client` and `Server` run
    the steps.
    """
    samples = [embedded(plan, model, text, hidden_states)]
    return _classify_locally(plan, model, samples, backend, seed, progress)[0]


def classify_batch_locally(
    plan: Plan,
    model: Checkpoint,
    texts: Sequence[Text] = (),
    *,
    hidden_states: Sequence[Array] = (),
    backend: str = "plain",
    seed: int = 0,
    progress: Callable[[Progress], None] = lambda _: None,
) -> list[Answer]:
    """As `classify_locally`, for up to plan.batch texts or hidden states in one run."""
    samples = [embedded(plan, model, text, None) for text in texts]
    samples += [embedded(plan, model, None, states) for states in hidden_states]
    if not 1 <= len(samples) <= plan.batch:
        raise InputError(
            f"classify: {len(samples)} texts, a batch holds 1 to {plan.batch}", hint="split them"
        )
    return _classify_locally(plan, model, samples, backend, seed, progress)


def _classify_locally(
    plan: Plan,
    model: Checkpoint,
    samples: Sequence[Sample],
    backend: str,
    seed: int,
    progress: Callable[[Progress], None],
) -> list[Answer]:
    """On the plan's circuit with no more sequences than hold the samples."""
    shape = shape_of(plan).shrunk(len(samples))
    circuit, be = circuit_of(plan, model, texts=len(samples)), _local(plan, backend, seed, shape.slots)
    levels = {tensor.name: tensor.level for tensor in plan.request}
    live = {n: tuple(be.encrypt(v, levels[n]) for v in vs) for n, vs in circuit.request.pack(samples).items()}
    predicted = plan.prediction.stage_seconds
    with np.errstate(
        all="ignore"
    ):  # far outside the intervals polynomials overflow; the response's checks say so
        out = executor.run(plan.stages, circuit.stages, be, live, predicted=predicted, progress=progress)
    answers = circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]])
    return [judge(plan, answer) for answer in answers[: len(samples)]]


def _local(plan: Plan, backend: str, seed: int, slots: int) -> PlainBackend | SimBackend:
    """A backend of the plan's levels and noise; it holds the circuit to the plan's keys where the slots are
    the plan's."""
    full, top = plan.parameters.slots, plan.parameters.max_level
    rotations = frozenset(step for step, _ in plan.rotations) if slots == full else None
    match backend:
        case "plain":
            return PlainBackend(slots, top, rotations)
        case "sim":
            return SimBackend(
                slots, top, inject=True, noise=noise_of(plan.parameters), rotations=rotations, seed=seed
            )
        case _:
            hint = "plain or sim; Client and Server encrypt (ckks)"
            raise InputError(f"classify_locally: backend {backend!r}", hint=hint)
