"""`python -m bench arion`: a published sentence through a trained model's plan, encrypted by us or on `sim`:
logits beside ARION's float reference or, of its BERT-base and of MOAI's head, each layer by itself, a row a
layer (`bench.models.published`).

    python -m bench arion                                             # BERT-Tiny on SST-2, encrypted
    python -m bench arion --weights base --plan-only --tokens 8       # BERT-base's twelve layers, on sim
    python -m bench arion --weights head --plan-only --tokens 16 --scheme arion

There is one sentence for each of these weights. Intervals come from perturbed and re-ordered copies of its
token vectors, never from itself; the report says how far it lies in them (`largest_excess`, below 1 is
inside).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bench.models.published import LAYERS, MISSING, WEIGHTS, Example, available, load_example
from bench.options import PRESET_DEFAULT, Preset, Tokens, emit, emit_rows
from bench.runs.harness import (
    Group,
    LayerErrors,
    Machine,
    Ran,
    Read,
    Sample,
    ask,
    figures,
    quality,
    unrounded,
)
from bench.runs.stages import stage_rows
from tacita.blocks.base import Norm
from tacita.blocks.shapes import function_of
from tacita.blocks.weights import Weights
from tacita.checkpoint import Checkpoint, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.cli.console import write_report
from tacita.cli.options import TOKENS_DEFAULT, Json, option
from tacita.errors import InputError
from tacita.models.registry import nodes
from tacita.packings.approximated import ApproximateTensors
from tacita.packings.specs import CircuitSpecs
from tacita.planning.calibrate.calibrate import Calibration
from tacita.planning.calibrate.excesses import excesses, largest
from tacita.planning.calibrate.temper import tempered
from tacita.planning.calibrate.walk import walk
from tacita.planning.request import PlanRequest
from tacita.plans.engine import describe
from tacita.plans.plan import Plan
from tacita.plans.prices.cost import Prices
from tacita.plans.prices.formulas import formula_prices
from tacita.schemes.choose import choose_plan
from tacita.texts.answer import softmax

Array = NDArray[np.float64]
CONTEXT = "layer0.attention.context"


def perturbed(hidden: Array, count: int, noise: float) -> list[Array]:
    """Inputs to calibrate on in place of the one sentence that there is: its token vectors in another order,
    each with noise.

    hidden: (tokens, features). noise: standard deviation, as a share of each feature's over the tokens. No
    row of the result is a row of the sentence.
    """
    rng, spread = np.random.default_rng(0), noise * hidden.std(axis=0)
    return [rng.permutation(hidden) + rng.normal(size=hidden.shape) * spread for _ in range(count)]


def arion(
    preset: Preset = PRESET_DEFAULT,
    tokens: Tokens = TOKENS_DEFAULT,
    copies: Annotated[int, option("--copies", help="Perturbed inputs to calibrate on.")] = 64,
    noise: Annotated[float, option("--noise", help="Of each feature's standard deviation.")] = 0.25,
    plan_only: Annotated[bool, option("--plan-only", help="On sim, without keys and encryption.")] = False,
    weights: Annotated[
        str, option("--weights", metavar=f"[{'|'.join(WEIGHTS)}]", help="Those of the published ones.")
    ] = "sst2",
    scheme: Annotated[str, option("--scheme", help="thor, or arion or moai in columns.")] = "thor",
    layer: Annotated[list[int] | None, option("--layer", help="Of base: this one alone.")] = None,
    json: Json = None,
) -> None:
    """Send a published sentence through a trained model's plan: ARION's logits beside ours, or BERT-base's
    layers one by one, or MOAI's head."""
    if not available():
        raise InputError("bench arion: no data", hint=MISSING)
    log_n = describe(preset).log_n
    how: dict[str, Any] = {"prices": Prices.shipped(log_n) or formula_prices(log_n), "quick": plan_only}
    request = PlanRequest(preset=preset, tokens=tokens, scheme=scheme, **how)
    machine = Machine("sim" if plan_only else "ckks", allow_insecure=preset != PRESET_DEFAULT)
    if weights not in ("base", "head"):
        example = load_example(weights, max(layer or [0]))
        return emit(_whole(example, planned(example, request, copies, noise), machine), json)
    rows: Any = []
    for number in layer or range(LAYERS if weights == "base" else 1):
        example = load_example(weights, number)
        plan = planned(example, request, copies, noise)
        rows.append({"layer": number, **of_layer(example, plan, machine)})
        emit_rows(rows[-1:])
    return write_report(json, rows)


def planned(example: Example, request: PlanRequest, copies: int, noise: float) -> Plan:
    states = [pad_hidden(h, request.tokens) for h in perturbed(example.hidden, copies, noise)]
    plan = choose_plan(example.checkpoint, replace(request, hidden_states=states)).plan
    assert isinstance(plan, Plan)  # by its scheme
    return plan


def _whole(example: Example, plan: Plan, machine: Machine) -> dict[str, Any]:
    model, (hidden, mask) = example.checkpoint, pad_hidden(example.hidden, plan.tokens)
    ran, group, layers = Ran(), Group(samples=[(hidden, mask)]), LayerErrors(plan, model)
    ask(unrounded(plan), model, [group], machine, ran, layers=layers)
    return {
        **figures(plan, machine, ran, stage_rows(plan, ran.stages[-1], 1, machine.memory), len(group)),
        **quality(ran.logits, reference(model, hidden, mask).logits[None]),
        "layer_errors": layers.worst,
        "degrees": dict(degrees(plan.circuit["specs"]["nodes"])),
        "logits": ran.logits[0].tolist(),
        "largest_excess": _excess(plan, model, (hidden, mask)),
        "error_to_arions_reference": float(np.max(np.abs(ran.logits - example.logits))),
    }


def of_layer(example: Example, plan: Plan, machine: Machine) -> dict[str, Any]:
    """What a layer's plan makes of its published input: errors as [mean, largest] magnitude, in the units of
    the values.

    functions: of each function by itself, on the values that floats come to. norms: on `sim`, of what follows
    a block and its norm. answer: of the mean of the layer's rows, or of the pooled vector. arions: of what
    its own ciphertexts decrypted to behind this layer, having passed those before it. attended: a head's
    result beside the published one.
    """
    model, sample = example.checkpoint, pad_hidden(example.hidden, plan.tokens)
    ran, errors = Ran(), NormErrors(plan, model)
    ask(unrounded(plan), model, [Group(samples=[sample])], machine, ran, layers=errors)
    exact = reference(model, *sample)
    row: dict[str, Any] = {
        "scheme": plan.scheme,
        "backend": machine.backend,
        "bootstraps": plan.bootstraps,
        "functions": dict(function_errors(plan, model, (example.hidden, np.ones(len(example.hidden))))),
        "norms": errors.norms,
        "answer": _error(ran.logits[0], exact.logits),
        "warnings": sum(bool(answer.warnings) for answer in ran.answers),
        "largest_excess": _excess(plan, model, sample),
    }
    if example.encrypted is not None:
        row["arions"] = _error(example.encrypted, example.trace["layer0.norm2.result"])
    elif errors.before.size:
        off = np.abs(exact.trace[CONTEXT][: len(example.hidden)] - example.trace[CONTEXT])
        row["attended"] = _error(errors.before, -off)
    return row


class NormErrors(LayerErrors):
    """Compares what every norm gives. norms: by node, as `of_layer` says. before: magnitudes of errors of the
    sum that the first norm takes, where it scales no feature: those of its result but for a factor a row,
    which is the error of 1/sqrt."""

    def __init__(self, plan: Plan, model: Checkpoint) -> None:
        super().__init__(plan, model)
        self.norms, self.before = dict[str, list[float]](), np.zeros(0)

    def see(self, stage: str, read: Read) -> None:
        """Compares where a norm ends."""
        if (probe := self._circuit.probes.get(stage)) is None:
            return
        found, wanted = probe.read(read(probe.tensor))[0], self._trace[probe.reference]
        found, wanted = (each[self._real[: len(found)]] for each in (found, wanted[: len(found)]))
        self.norms[stage.partition(".")[2]] = _error(found, wanted)
        if not self.before.size:
            factors = (found * wanted).sum(axis=1) / (wanted**2).sum(axis=1)
            deviations = np.sqrt(self._trace[f"{stage}.variance"][: len(found)])
            self.before = np.abs(found / factors[:, None] - wanted) * deviations[:, None]


def function_errors(plan: Plan, model: Checkpoint, sample: Sample) -> Iterator[tuple[str, list[float]]]:
    """Errors of a layer's softmax, norms and activation, each on the float model's own values."""
    trace = reference(model, *sample).trace
    soft = tempered(model, Calibration.from_dict(plan.circuit["calibration"]).temperatures)
    sides = reference(soft, *sample).trace
    specs = CircuitSpecs.from_json(plan.circuit["specs"])
    ours = ApproximateTensors(Weights(soft.tensors), sample[1], specs)
    at = "layer0.attention"
    scores = ours.scores(sides[f"{at}.queries"], sides[f"{at}.keys"], at)
    yield "attention", _error(ours.softmax(scores, at), softmax(scores))
    for name, node in nodes(model.config).items():
        if isinstance(node, Norm):
            found = ours.norm(trace[f"{name}.sum"], node, name)
        elif kind := function_of(node):
            found = ours.function(trace[f"{name}.argument"], kind, name)
        else:
            continue
        yield name.removeprefix("layer0."), _error(found, trace[f"{name}.result"])


def _error(found: Array, wanted: Array) -> list[float]:
    return [float(each(np.abs(found - wanted))) for each in (np.mean, np.max)]


def degrees(nodes: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Degrees of norms' and activations' functions that are one polynomial, without Newton's steps."""
    for node, parts in nodes.items():
        for spec in (parts[name] for name in ("rsqrt", "function") if name in parts):
            if power := {"chebyshev": 1, "even": 2}.get(spec["kind"]):
                yield f"{node}, {spec['function']}", power * (len(spec["coefficients"]) - 1)


def _excess(plan: Plan, model: Checkpoint, sample: Sample) -> float:
    """How far the sentence lies in the plan's intervals."""
    found = Calibration.from_dict(plan.circuit["calibration"])
    soft = tempered(model, found.temperatures)
    return float(largest(excesses(walk(soft, [sample], 1, rows=found.row_estimates), found))[0])
