"""ARION's shipped BERT-Tiny (hidden states of one sentence, all weights, all intermediates) as a Checkpoint,
and `python -m bench arion`: that sentence encrypted by us, logits beside ARION's float reference.

Reads `../shared/data/hangenba-Arion` beside the repository; `available()` says whether it is there. There is
one sentence for these weights. Intervals come from perturbed and re-ordered copies of its token vectors,
never from itself; the report says how far it lies in them (`largest_excess`, below 1 is inside).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from bench import options
from bench.options import PRESET_DEFAULT, Preset, Tokens, emit
from bench.runs.harness import Group, LayerErrors, Machine, Ran, ask, figures, quality, unrounded
from bench.runs.stages import stage_rows
from tacita.checkpoint import Checkpoint, from_tensors, pad_hidden
from tacita.checkpoint.reference import reference
from tacita.cli.options import TOKENS_DEFAULT, Json, option
from tacita.errors import InputError
from tacita.models.bert import BertConfig
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

Array = NDArray[np.float64]
DATA = options.DATA / "hangenba-Arion"
MISSING = "needs ../shared/data/hangenba-Arion beside the repository"

LAYER_FILES = {
    "attention.self.query": "Attention/BertSelfAttention/parms/query_{}",
    "attention.self.key": "Attention/BertSelfAttention/parms/key_{}",
    "attention.self.value": "Attention/BertSelfAttention/parms/value_{}",
    "attention.output.dense": "Attention/SelfOutput/parms/self_output_dense_{}",
    "attention.output.LayerNorm": "Attention/SelfOutput/parms/self_output_LayerNorm_{}",
    "intermediate.dense": "Intermediate/parms/intermediate_dense_{}",
    "output.dense": "Output/parms/final_output_dense_{}",
    "output.LayerNorm": "Output/parms/final_output_LayerNorm_{}",
}
TRACE_FILES = {
    "attention.scores": "Attention/BertSelfAttention/allresults/QKT",
    "attention.context": "Attention/BertSelfAttention/allresults/real_attention",
    "norm1.sum": "Attention/SelfOutput/allresults/self_output_residual_connection_before_layernorm",
    "norm1.result": "Attention/SelfOutput/allresults/real_self_output",
    "feed_forward.argument": "Intermediate/allresults/intermediate_output_after_linear",
    "feed_forward.result": "Intermediate/allresults/real_intermediate_output",
    "norm2.sum": "Output/allresults/final_output_residual_connection_before_layernorm",
    "norm2.result": "Output/allresults/real_final_output",
}


@dataclass(frozen=True)
class Example:
    """hidden: (tokens, 128) layer input; trace: their float32 intermediates under our names; logits: (2,)."""

    checkpoint: Checkpoint
    hidden: Array
    trace: dict[str, Array]
    logits: Array


def available() -> bool:
    """Whether the data are there."""
    return DATA.is_dir()


def load_example(task: str = "sst2") -> Example:
    """task: "sst2" (fine-tuned, with classifier) or "pretrained" (its `logits` are the pooled vector)."""
    tuned = task == "sst2"
    folder = DATA / ("bert_tiny_data_sst2" if tuned else "bert_tiny_data")
    labels = ("LABEL_0", "LABEL_1") if tuned else ()
    config = BertConfig(2, 128, 2, 512, 1, 512, 2, "gelu", "pooler", 1e-12, labels, embeddings=False)
    tensors = _dense("pooler.dense", folder / "pooler/parms", "pooler_dense_{}")
    if tuned:
        tensors |= _dense("classifier", folder / "classifier/parms", "classifier_{}")
    trace = {"pooler.tanh.argument": _csv(folder / "pooler/allresults/pooler_linear.csv").reshape(1, -1)}
    for layer in range(config.layers):
        root = folder / f"layer_{layer}"
        for name, file in LAYER_FILES.items():
            tensors |= _dense(f"encoder.layer.{layer}.{name}", root, file)
        trace |= {f"layer{layer}.{name}": _csv(root / f"{file}.csv") for name, file in TRACE_FILES.items()}
        scores = f"layer{layer}.attention.scores"  # stored (query, key * heads + head)
        stored: NDArray[Any] = trace[scores].reshape(len(trace[scores]), -1, config.heads)
        trace[scores] = np.moveaxis(stored, -1, 0)
    hidden = _csv(folder / "layer_0/Attention/BertSelfAttention/allresults/embedded_inputs.csv")
    answer = "classifier/allresults/classifier_logits" if tuned else "pooler/allresults/pooler_tanh_output"
    logits = _csv(folder / f"{answer}.csv").ravel()
    return Example(from_tensors(config, tensors, name=f"arion-{task}"), hidden, trace, logits)


def perturbed(hidden: Array, count: int, noise: float, seed: int = 0) -> list[Array]:
    """Inputs to calibrate on in place of the one sentence that there is: its token vectors in another order,
    each with noise.

    hidden: (tokens, features). noise: standard deviation, as a share of each feature's over the tokens. No
    row of the result is a row of the sentence.
    """
    rng, spread = np.random.default_rng(seed), noise * hidden.std(axis=0)
    return [rng.permutation(hidden) + rng.normal(size=hidden.shape) * spread for _ in range(count)]


def _dense(name: str, folder: Path, file: str) -> dict[str, Array]:
    weight, bias = (_csv(folder / f"{file.format(part)}.csv") for part in ("weight", "bias"))
    return {f"{name}.weight": weight.ravel() if "LayerNorm" in name else weight, f"{name}.bias": bias.ravel()}


def _csv(path: Path) -> Array:
    return np.loadtxt(path, delimiter=",", ndmin=2)


def arion(
    preset: Preset = PRESET_DEFAULT,
    tokens: Tokens = TOKENS_DEFAULT,
    copies: Annotated[int, option("--copies", help="Perturbed inputs to calibrate on.")] = 64,
    noise: Annotated[float, option("--noise", help="Of each feature's standard deviation.")] = 0.25,
    plan_only: Annotated[bool, option("--plan-only", help="On sim, without keys and encryption.")] = False,
    json: Json = None,
) -> None:
    """Encrypt ARION's own sentence with its BERT-Tiny: logits beside its reference."""
    if not available():
        raise InputError("bench arion: no data", hint=MISSING)
    example = load_example("sst2")
    model, (hidden, mask) = example.checkpoint, pad_hidden(example.hidden, tokens)
    states = [pad_hidden(h, tokens) for h in perturbed(example.hidden, copies, noise)]
    log_n = describe(preset).log_n
    paid = Prices.shipped(log_n) or formula_prices(log_n)
    request = PlanRequest(preset=preset, prices=paid, tokens=tokens, hidden_states=states)
    plan = choose_plan(model, request).plan
    assert isinstance(plan, Plan)  # by its scheme
    machine = Machine("sim" if plan_only else "ckks", allow_insecure=preset != PRESET_DEFAULT)
    ran, group, layers = Ran(), Group(samples=[(hidden, mask)]), LayerErrors(plan, model)
    ask(unrounded(plan), model, [group], machine, ran, layers=layers)
    report = {
        **figures(plan, machine, ran, stage_rows(plan, ran.stages[-1], 1, machine.memory), len(group)),
        **quality(ran.logits, reference(model, hidden, mask).logits[None]),
        "layer_errors": layers.worst,
        "degrees": dict(degrees(plan.circuit["specs"]["nodes"])),
        "logits": ran.logits[0].tolist(),
        "largest_excess": _excess(plan, model, hidden, mask),
        "error_to_arions_reference": float(np.max(np.abs(ran.logits - example.logits))),
    }
    emit(report, json)


def degrees(nodes: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Degrees of norms' and activations' functions that are one polynomial, without Newton's steps."""
    for node, parts in nodes.items():
        for spec in (parts[name] for name in ("rsqrt", "function") if name in parts):
            if power := {"chebyshev": 1, "even": 2}.get(spec["kind"]):
                yield f"{node}, {spec['function']}", power * (len(spec["coefficients"]) - 1)


def _excess(plan: Plan, model: Checkpoint, hidden: Array, mask: Array) -> float:
    """How far the sentence lies in the plan's intervals."""
    found = Calibration.from_dict(plan.circuit["calibration"])
    soft = tempered(model, found.temperatures)
    return float(largest(excesses(walk(soft, [(hidden, mask)], 1, rows=found.row_estimates), found))[0])
