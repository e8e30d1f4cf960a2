"""Model + intervals -> circuit -> plan, and plan + model -> circuit again. Both parties go through here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from tacita.backends.sim import SimBackend
from tacita.checkpoint import Checkpoint, embed
from tacita.checkpoint.embed import Array, Text
from tacita.errors import InputError, PlanError
from tacita.models.bert import reference
from tacita.models.circuit import Circuit, CircuitSpecs, build_circuit
from tacita.packing.rows import RowsShape
from tacita.plan import executor
from tacita.plan.build import Placed, place_circuit, to_plan
from tacita.plan.calibrate import Calibration, Sample, calibrate, load_texts
from tacita.plan.cost import Prices
from tacita.plan.executor import Progress
from tacita.plan.fitting import Accuracy, fit_circuit
from tacita.plan.plan import ModelInfo, ParameterInfo, Plan
from tacita.plan.temper import tempered
from tacita.schemes.base import Live

SCHEME = "rows"
DECIMALS = 3  # of printed logits: 2^-10, against decryption noise below 2^-14
TRIALS = 2  # samples on which `sim` predicts the error of the answer


def make_plan(
    model: Checkpoint,
    parameters: ParameterInfo,
    prices: Prices,
    *,
    tokens: int,
    texts: Sequence[Text] | None = None,
    hidden_states: Sequence[Sample] = (),
    accuracy: Accuracy | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Plan:
    """Calibrates on texts (default: the package's) or hidden states, fits, places, predicts. See tacita.plan."""
    RowsShape(parameters.slots, tokens)  # refuses what the packing does not admit before minutes of calibration
    phases = _Phases(progress)
    phases.enter("calibrate")
    calibration = calibrate(model, tokens, texts, hidden_states=hidden_states, progress=phases.part)
    phases.enter("fit")
    specs = fit_circuit(calibration, model.config, accuracy)
    circuit = build_circuit(tempered(model, calibration.temperatures), specs, parameters.slots, tokens)
    phases.enter("place")
    placed = place_circuit(circuit, parameters, prices)
    phases.enter("predict")
    samples = hidden_states[:TRIALS] or _samples(model, tokens, texts)
    error = _predicted_error(model, placed, samples)
    calibrated = {"calibration": calibration.to_dict(), "specs": specs.to_dict()}
    phases.enter("done")
    return to_plan(
        placed, model_info(model), tokens, calibrated, prices, decimals=DECIMALS, max_abs_error=error, scheme=SCHEME
    )


def circuit_of(plan: Plan, model: Checkpoint) -> Circuit:
    """The circuit that the plan was made for; kept for the next call. Raises PlanError for another model."""
    require_model(plan, model)
    return _circuit(plan.hash, _Key(plan, model))


def require_model(plan: Plan, model: Checkpoint) -> None:
    """Raises PlanError unless the plan was made for this checkpoint."""
    if plan.model.sha256 != model.sha256:
        raise PlanError(
            f"plan of model {plan.model.name} ({plan.model.sha256[:12]}), given {model.name} ({model.sha256[:12]})",
            hint="pass the --model that the plan was made for, or make the plan again",
        )
    if plan.scheme != SCHEME:
        raise PlanError(f"packing {plan.scheme!r}, this program has {SCHEME!r}", hint="make the plan again")


def model_info(model: Checkpoint) -> ModelInfo:
    """What a plan says about its checkpoint."""
    c = model.config
    return ModelInfo(
        name=model.name,
        sha256=model.sha256,
        architecture="bert",
        layers=c.layers,
        hidden=c.hidden,
        heads=c.heads,
        intermediate=c.intermediate,
        activation=c.activation,
        pooling=c.pooling,
        labels=c.labels,
        embeddings=c.embeddings,
    )


class _Key:
    """Arguments of `_circuit` that do not take part in its cache key (the plan's hash stands for them)."""

    def __init__(self, plan: Plan, model: Checkpoint) -> None:
        self.plan, self.model = plan, model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4)
def _circuit(_: str, key: _Key) -> Circuit:
    specs = CircuitSpecs.from_json(key.plan.circuit["specs"])
    model = tempered(key.model, Calibration.from_dict(key.plan.circuit["calibration"]).temperatures)
    return build_circuit(model, specs, key.plan.parameters.slots, key.plan.tokens)


def _samples(model: Checkpoint, tokens: int, texts: Sequence[Text] | None) -> list[Sample]:
    """The first texts that fit, embedded."""
    found: list[Sample] = []
    for text in texts if texts is not None else load_texts():
        try:
            found.append(embed(model, text, tokens))
        except InputError:  # too long for the plan: calibration cut it, the prediction takes the next
            continue
        if len(found) == TRIALS:
            break
    return found


def _predicted_error(model: Checkpoint, placed: Placed, samples: Sequence[Sample]) -> float:
    """Largest distance of the answer from the float model's, with the engine's noise, over the samples."""
    return max((_trial(model, placed, hidden, mask) for hidden, mask in samples), default=0.0)


def _trial(model: Checkpoint, placed: Placed, hidden: Array, mask: Array) -> float:
    be = SimBackend(placed.parameters.slots, placed.parameters.max_level, inject=True)
    levels = {**placed.placement.request, **placed.fixed_levels}
    slots = placed.circuit.request.pack(hidden, mask)
    live: Live = {name: tuple(be.encrypt(v, levels[name]) for v in vs) for name, vs in slots.items()}
    out = executor.run(placed.stages, placed.circuit.stages, be, live)
    answer = placed.circuit.response.read([be.decrypt(ct) for ct in out["answer"]])
    return float(np.max(np.abs(answer.values - reference(model, hidden, mask).logits)))


class _Phases:
    """Progress of planning; each phase has a share of the time as measured on the default model."""

    SHARES: tuple[tuple[str, float], ...] = (("calibrate", 5.0), ("fit", 1.0), ("place", 3.0), ("predict", 4.0))

    def __init__(self, progress: Callable[[Progress], None]) -> None:
        self._progress = progress
        self._names = [name for name, _ in self.SHARES]
        self._index = 0

    def enter(self, name: str) -> None:
        self._index = self._names.index(name) if name in self._names else len(self._names)
        self._report(0.0)

    def part(self, done: int, total: int) -> None:
        self._report(done / total)

    def _report(self, share: float) -> None:
        weights = [w for _, w in self.SHARES]
        done = sum(weights[: self._index])
        done += share * weights[self._index] if self._index < len(weights) else 0.0
        name = self._names[self._index] if self._index < len(weights) else "done"
        self._progress(Progress(name, self._index, len(weights), done, sum(weights) - done))
