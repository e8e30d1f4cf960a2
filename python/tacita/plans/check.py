"""What a party accepts of a plan file that the other one wrote: every number within its limits, before
anything acts on one.

`check` needs the file alone, and is all that a client can check. `planning.circuit` checks what a circuit is
built from (`require_circuit`) and, when the model is at hand, what follows from its weights: `require_model`
(sizes, labels) and `place.circuit.require_agreement` (layouts, stages, tensors, bootstraps, exactly the
rotation keys that the circuit takes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacita.errors import ShapeError
from tacita.layouts.registry import RULES
from tacita.layouts.runs import HIDDEN
from tacita.limits import Rules, limits_of, require, try_make
from tacita.plans.answers import least_noise
from tacita.plans.error import quiet
from tacita.plans.options import MOST_BOUND, REQUEST, RESPONSE, option_rules
from tacita.plans.plan import REMAKE, ModelInfo, PlacedStage, Plan, Prediction, TensorInfo
from tacita.plans.presets import PRESETS, can_bootstrap
from tacita.plans.scheme import SCHEMES, shape_of
from tacita.texts.embedding import MAX_CLASSES, MAX_VOCAB, limits
from tacita.texts.task import EVERY_TOKEN, NEXT, WORDS, labelled

MOST_STAGES = 32  # a layer; the circuits have up to 13
# A linear layer in baby and giant steps takes about 2 sqrt(d) keys for d diagonals, and layers of one layout
# share them: models from 64 to 768 features on rings from 2^12 to 2^16 take 8 to 92. The exact set is
# compared with the circuit's before keys are made.
MOST_ROTATIONS = 512
ROTATING = ("rotate", "rotate_hoisted", "rotate_shared")  # counted, with rotation keys: see `slots.counts`
COEFFICIENTS = "coefficients"  # the packing whose plans may ask for keys to a small ring
BYTES = frozenset({"evaluation_keys", "request", "response", "server_memory", "client_memory"})
SECONDS = frozenset({"keygen", "evaluate"})
PRICED = frozenset({"touch", "spill"})  # seconds that not every table of prices has


def check(plan: Plan, where: str = "plan") -> None:
    """Raises FileError naming the first field outside its limits. Cost: milliseconds; builds no circuit.

    Strings are short and printable and numbers finite already, when the plan comes from `plan.parse`.
    """
    require(_rules(plan), where, hint=REMAKE)


def _rules(plan: Plan) -> Rules:
    """Yields the rules in this order: later ones rely on earlier ones."""
    yield from limits_of(plan)
    yield from _model_rules(plan.model)
    yield "parameters", PRESETS.get(plan.parameters.preset) == plan.parameters
    yield from _shape_rules(plan)
    top, refreshes = plan.parameters.max_level, can_bootstrap(plan.parameters)
    yield "number of stages", 1 <= len(plan.stages) <= MOST_STAGES * (plan.model.layers + 1)
    yield "names of stages", len({stage.name for stage in plan.stages}) == len(plan.stages)
    for stage in plan.stages:
        yield from _stage_rules(stage, top, refreshes)
    yield "rotations", _rotations_fit(plan.rotations, plan.parameters.slots, top)
    yield from _tensor_rules("request", plan.request, top)
    yield from _tensor_rules("response", plan.response, top)
    yield "names of the request", {"hidden", "mask"} <= {tensor.name for tensor in plan.request} <= REQUEST
    yield "names of the response", [tensor.name for tensor in plan.response] == [RESPONSE]
    yield from _tensor_rules("kept", plan.kept, top)
    yield from option_rules(plan)
    yield from _key_rules(plan)
    yield from _layout_rules(plan)
    least = least_noise(plan.parameters, plan.answer)
    yield f"noise of {plan.noise:.2g}, at least {least:.2g} is", plan.noise >= least
    yield f"{plan.decimals} decimals at noise of {plan.noise:.2g} are", quiet(plan.decimals, plan.noise)
    yield from _prediction_rules(plan.prediction, len(plan.stages))
    population = plan.population
    yield "population: counts", population.far <= population.outside <= population.texts


def _model_rules(model: ModelInfo) -> Rules:
    yield "heads", model.head_size > 0 or model.hidden % model.heads == 0
    worded = model.task not in (WORDS, NEXT) or model.embeddings is not None
    yield "labels of the task", labelled(model) and worded
    if model.embeddings is not None:
        yield "rows in reverse", model.embeddings.backwards == (model.task == NEXT)
        yield from limits(model.embeddings)
    yield "tokens that end a text", all(0 <= token < _outputs(model) for token in model.ends or ())
    yield "numbers of an answer", 1 <= _outputs(model) <= (MAX_VOCAB if model.task == NEXT else MAX_CLASSES)


def _shape_rules(plan: Plan) -> Rules:
    yield "scheme", plan.scheme in SCHEMES
    yield "layout: packing", plan.packing in SCHEMES[plan.scheme].packings
    yield "lanes", plan.lanes in RULES[plan.packing].lanes
    # None for tokens and lanes that the packing does not admit
    yield "texts of a request", try_make(lambda: shape_of(plan).texts, ShapeError) == plan.batch


def _stage_rules(stage: PlacedStage, top: int, refreshes: bool) -> Rules:
    name = f"stage {stage.name}:"
    levels = (*stage.levels.values(), *stage.out_levels.values())
    yield f"{name} levels", max(levels, default=0) <= top
    yield f"{name} bootstraps", _unique(stage.bootstraps) and set(stage.bootstraps) <= set(stage.levels)
    yield f"{name} kinds of bootstraps", bool(stage.kinds) == bool(stage.bootstraps)
    yield f"{name} bootstraps without keys for them", refreshes or not (stage.bootstraps or stage.through)


def _rotations_fit(rotations: Sequence[tuple[int, int]], slots: int, top: int) -> bool:
    steps = [step for step, _ in rotations]
    inside = all(1 <= step < slots and 0 <= level <= top for step, level in rotations)
    return inside and _unique(steps) and len(steps) <= MOST_ROTATIONS


def _key_rules(plan: Plan) -> Rules:
    """What a client, who cannot build the circuit, can see of the keys: that the plan's own stages could use
    each of them.

    Levels only fall, but for bootstraps, so no key is used above the highest of them. Every key turns a
    ciphertext once at least, so there are no more keys than rotations in the stages' counts (those inside
    bootstraps are not counted).
    """
    live = {tensor.name: tensor.level for tensor in plan.request}
    highest = max(live.values(), default=0)
    for stage in plan.stages:
        yield f"stage {stage.name}: levels that rise without a bootstrap", _falling(stage, live)
        highest = max(
            highest, *stage.levels.values(), *(stage.out_levels.values() if stage.through else ()), 0
        )
        live = {**live, **stage.out_levels}
    turns = sum(stage.counts.get(op, 0) for stage in plan.stages for op in ROTATING)
    within = plan.coefficients is None or plan.packing == COEFFICIENTS
    yield "coefficient products outside their packing", within
    yield "levels of the rotations", all(level <= highest for _, level in plan.rotations)
    yield "rotations beyond those that the stages count", len(plan.rotations) <= turns
    yield "level of the response", all(tensor.level <= live.get(tensor.name, -1) for tensor in plan.response)


def _falling(stage: PlacedStage, live: Mapping[str, int]) -> bool:
    """Whether a stage takes tensors that are there, no higher than they are unless refreshed, and gives none
    above them."""
    available = all(
        name in stage.bootstraps or level <= live.get(name, -1) for name, level in stage.levels.items()
    )
    there = stage.levels.keys() <= live.keys()
    falls = max(stage.out_levels.values(), default=0) <= max(stage.levels.values(), default=0)
    return available and there and (falls or stage.through > 0)


def _tensor_rules(what: str, tensors: Sequence[TensorInfo], top: int) -> Rules:
    yield f"names of the {what}", _unique([tensor.name for tensor in tensors])
    for tensor in tensors:
        yield f"{what} {tensor.name}: level", tensor.level <= top


def _layout_rules(plan: Plan) -> Rules:
    """Yields the rules that tie the layout to the plan's sizes: nothing larger than the plan's own numbers is
    built from it."""
    request, response, model = plan.layout.request, plan.layout.response, plan.model
    sizes = (plan.parameters.slots, plan.batch, plan.tokens, model.hidden)
    stated = (request.slots, request.texts, request.tokens, request.size)
    yield "layout: sizes of the request", stated == sizes
    yield "layout: sizes of the response", (response.slots, response.texts) == sizes[:2]
    yield "layout: size of the answer", response.size == _outputs(model)
    rows = plan.tokens if model.task in EVERY_TOKEN else 1
    yield "layout: rows of the answer", response.rows == rows
    yield "layout: bounds", all(0.0 < bound <= MOST_BOUND for bound in (request.bound, response.bound))
    counts = {t.name: t.count for t in plan.request}, [t.count for t in plan.response]
    yield "layout: ciphertexts", (request.counts, [response.count]) == counts
    yield "layout: runs of the request", try_make(request.check, ShapeError) is not None
    rows = (plan.batch - 1) * plan.tokens + (1 if plan.kept else plan.tokens)
    yield "layout: rows of the request", request.tensors[HIDDEN].last == rows * model.hidden - 1
    yield "layout: runs of the response", try_make(response.check, ShapeError) is not None


def _outputs(model: ModelInfo) -> int:
    """The number of outputs of an answer, or of each token's."""
    if model.task in (WORDS, NEXT) and model.embeddings is not None:
        return model.embeddings.vocab
    return len(model.labels) or model.hidden


def _prediction_rules(prediction: Prediction, stages: int) -> Rules:
    """Yields the rules of the prediction. The hash does not cover it, and nothing that a client guards itself
    with is taken from it."""
    yield "prediction: fields", set(prediction.bytes) == BYTES
    yield "prediction: fields", SECONDS <= set(prediction.seconds) <= SECONDS | PRICED
    yield "prediction: stages", len(prediction.stage_seconds) == len(prediction.stage_bytes) == stages
    yield "prediction: memory", max(prediction.stage_bytes) <= prediction.bytes["server_memory"]


def _unique(names: Sequence[object]) -> bool:
    return len(set(names)) == len(names)
