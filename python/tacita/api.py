"""The Python interface: six lines from a model folder to an encrypted answer.

plan = tacita.plan("models/sst2-tiny")
client = tacita.Client(plan, model, "work")      # holds the secret key
client.keygen()
client.encrypt("a film of quiet beauty")
tacita.Server(plan, model, "work").evaluate()    # holds public material only
print(client.decrypt().label)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacita.backends.plain import PlainBackend
from tacita.backends.sim import SimBackend
from tacita.checkpoint import Checkpoint, load
from tacita.checkpoint.embed import Text
from tacita.client import Answer, Client
from tacita.client.session import embedded, judge
from tacita.errors import TacitaError
from tacita.models.bert import reference
from tacita.plan import executor
from tacita.plan.build import RESPONSE
from tacita.plan.circuit import circuit_of, make_plan
from tacita.plan.cost import Prices
from tacita.plan.executor import Progress
from tacita.plan.formulas import formula_prices
from tacita.plan.plan import ParameterInfo, Plan
from tacita.plan.presets import PRESETS
from tacita.server import Server

__all__ = [
    "DEFAULT_MODEL",
    "Answer",
    "Client",
    "Plan",
    "Server",
    "classify_locally",
    "load",
    "plan",
    "reference_logits",
]

Array = npt.NDArray[np.float64]
DEFAULT_MODEL = Path(os.environ.get("TACITA_MODEL", Path(__file__).parents[2] / "models" / "sst2-tiny"))


def plan(
    model: Checkpoint | Path | str = DEFAULT_MODEL,
    *,
    tokens: int = 128,
    preset: str = "n16",
    texts: Sequence[str] | None = None,
    prices: Prices | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Plan:
    """Calibrates, places and prices a run of `model` at `tokens` tokens.

    texts: calibration sentences (default: those shipped with the model). prices: default the measured table for the
    ring, else formulas. Raises CheckpointError, InputError, ShapeError (sizes that the packing does not admit), PlanError.
    """
    checkpoint = model if isinstance(model, Checkpoint) else load(model)
    info = describe(preset)
    table = prices or Prices.shipped(info.log_n) or formula_prices(info.log_n)
    return make_plan(checkpoint, info, table, tokens=tokens, texts=texts, progress=progress)


def describe(preset: str) -> ParameterInfo:
    """A preset's figures: from the engine, or from the table that the tests hold equal to it."""
    if preset not in PRESETS:
        raise TacitaError(f"no preset {preset!r}", hint=f"one of {', '.join(PRESETS)}")
    return PRESETS[preset]


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
    """The plan's circuit on `plain` (its meaning) or `sim` (with the engine's noise); nothing is encrypted."""
    be = _local(plan, backend, seed)
    hidden, mask = embedded(plan, model, text, hidden_states)
    circuit = circuit_of(plan, model)
    levels = {tensor.name: tensor.level for tensor in plan.request}
    live = {n: tuple(be.encrypt(v, levels[n]) for v in vs) for n, vs in circuit.request.pack(hidden, mask).items()}
    predicted = plan.prediction.stage_seconds
    with np.errstate(all="ignore"):  # far outside the intervals polynomials overflow; the response's checks say so
        out = executor.run(plan.stages, circuit.stages, be, live, predicted=predicted, progress=progress)
    return judge(plan, circuit.response.read([be.decrypt(ct) for ct in out[RESPONSE]]))


def _local(plan: Plan, backend: str, seed: int) -> PlainBackend | SimBackend:
    slots, top = plan.parameters.slots, plan.parameters.max_level
    rotations = frozenset(step for step, _ in plan.rotations)
    if backend == "sim":
        return SimBackend(slots, top, inject=True, rotations=rotations, seed=seed)
    return PlainBackend(slots, top, rotations)
