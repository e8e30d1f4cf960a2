"""What a party accepts of a plan file that the other one wrote: every number within its limits, before
anything acts on one.

`check` needs the file alone, and is all that a client can check. What a circuit is built from is checked by
`check_circuit`, and what follows from the weights when the model is at hand: `circuit.require_model` (sizes,
labels) and `dry_run.require_agreement` (layouts, stages, tensors, bootstraps, exactly the rotation keys
that the circuit takes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tacita.errors import ShapeError
from tacita.layouts.one_text import OneTextResponse
from tacita.layouts.registry import RULES, AnyResponse, Layout
from tacita.layouts.row_requests import StepRequest
from tacita.plans.answers import least_noise
from tacita.plans.error import FOLDS, HELD_OUT, MOST_DECIMALS, NOT_ESTIMATED, Population, quiet
from tacita.plans.json_fields import Rules, require, try_make
from tacita.plans.options import MOST_BOUND, REQUEST, RESPONSE, option_rules
from tacita.plans.plan import REMAKE, ModelInfo, PlacedStage, Plan, Prediction, TensorInfo
from tacita.plans.presets import PRESETS, can_bootstrap
from tacita.plans.scheme import SCHEMES, shape_of
from tacita.texts.embedding import (
    MAX_CLASSES,
    MAX_HIDDEN,
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_TYPES,
    MAX_VOCAB,
    FrontConfig,
    limits,
)
from tacita.texts.task import CHOICE, EVERY_TOKEN, NEXT, PROBLEMS, TASKS, WORDS, labelled

MOST_STAGES = 32  # a layer; the circuits have up to 13
MOST_TENSORS = 16  # named by a stage; the circuits have up to 5
MOST_CIPHERTEXTS = 4 * MAX_HIDDEN  # of one tensor: the inner features of a batch, each in its own
# A linear layer in baby and giant steps takes about 2 sqrt(d) keys for d diagonals, and layers of one layout
# share them: models from 64 to 768 features on rings from 2^12 to 2^16 take 8 to 92. The exact set is
# compared with the circuit's before keys are made.
MOST_ROTATIONS = 512
MOST_COUNT = 1 << 40  # operations of a stage
ROTATING = (
    "rotate",
    "rotate_hoisted",
    "rotate_shared",
)  # counted operations that take a rotation key: see `slots.counts`
MOST_SECONDS = 1e9
MOST_BYTES = 1 << 50
KINDS = frozenset({"real", "complex"})
COEFFICIENTS = "coefficients"  # the packing whose plans may ask for keys to a small ring
BYTES = frozenset({"evaluation_keys", "request", "response", "server_memory", "client_memory"})
SECONDS = frozenset({"keygen", "evaluate"})
PRICED = frozenset({"touch", "spill"})  # seconds that not every table of prices has
SHA256 = re.compile(r"[0-9a-f]{64}")


def check(plan: Plan, where: str = "plan") -> None:
    """Raises FileError naming the first field outside its limits. Cost: milliseconds; builds no circuit.

    Strings are short and printable and numbers finite already, when the plan comes from `plan.parse`.
    """
    require(_rules(plan), where, hint=REMAKE)


def _rules(plan: Plan) -> Rules:
    """Yields the rules in this order: later ones rely on earlier ones."""
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
    yield from _answer_rules(plan)
    yield from _prediction_rules(plan.prediction, len(plan.stages))
    yield from _population_rules(plan.population)


def _model_rules(model: ModelInfo) -> Rules:
    yield "commitment", SHA256.fullmatch(model.commitment) is not None
    yield "layers", 1 <= model.layers <= MAX_LAYERS
    yield "hidden size", 1 <= model.hidden <= MAX_HIDDEN
    yield "heads", 1 <= model.heads <= model.hidden and model.hidden % model.heads == 0
    yield "intermediate size", 1 <= model.intermediate <= 4 * MAX_HIDDEN
    yield "labels", len(model.labels) <= MAX_CLASSES
    yield "task", model.task in TASKS and model.problem in PROBLEMS
    worded = model.task not in (WORDS, NEXT) or model.embeddings is not None
    yield "labels of the task", labelled(model) and worded
    if model.embeddings is not None:
        yield "rows in reverse", model.embeddings.backwards == (model.task == NEXT)
        yield from _embedding_rules(model.embeddings)
    yield "numbers of an answer", 1 <= _outputs(model) <= (MAX_VOCAB if model.task == NEXT else MAX_CLASSES)


def _embedding_rules(front: FrontConfig) -> Rules:
    yield "vocabulary", 1 <= front.vocab <= MAX_VOCAB
    yield "positions", 1 <= front.positions <= MAX_POSITIONS
    yield "token types", 0 <= front.types <= MAX_TYPES
    yield "epsilon of the embedding's norm", 0.0 <= front.norm_eps <= 0.1
    yield from limits(front)


def _shape_rules(plan: Plan) -> Rules:
    yield "scheme", plan.scheme in SCHEMES
    yield "tokens", 2 <= plan.tokens <= MAX_POSITIONS
    yield "layout: packing", plan.packing in SCHEMES[plan.scheme].packings
    yield "lanes", plan.lanes in RULES[plan.packing].lanes
    # None for tokens and lanes that the packing does not admit
    yield "texts of a request", try_make(lambda: shape_of(plan).texts, ShapeError) == plan.batch


def _stage_rules(stage: PlacedStage, top: int, refreshes: bool) -> Rules:
    name = f"stage {stage.name}:"
    yield f"{name} levels", _levels(stage.levels, top) and _levels(stage.out_levels, top)
    yield f"{name} bootstraps", _unique(stage.bootstraps) and set(stage.bootstraps) <= set(stage.levels)
    yield f"{name} kinds of bootstraps", len(stage.kinds) <= MOST_CIPHERTEXTS and set(stage.kinds) <= KINDS
    yield f"{name} kinds of bootstraps", bool(stage.kinds) == bool(stage.bootstraps)
    yield f"{name} bootstraps without keys for them", refreshes or not (stage.bootstraps or stage.through)
    yield f"{name} counts", all(0 <= count <= MOST_COUNT for count in stage.counts.values())


def _levels(levels: Mapping[str, int], top: int) -> bool:
    return len(levels) <= MOST_TENSORS and all(0 <= level <= top for level in levels.values())


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
    yield (
        "coefficient products outside their packing",
        plan.coefficients is None or plan.packing == COEFFICIENTS,
    )
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
        yield f"{what} {tensor.name}: ciphertexts", 1 <= tensor.count <= MOST_CIPHERTEXTS
        yield f"{what} {tensor.name}: level", 0 <= tensor.level <= top
        yield f"{what} {tensor.name}: kind", tensor.kind == "real"


def _layout_rules(plan: Plan) -> Rules:
    """Yields the rules that tie the layout to the plan's sizes: nothing larger than the plan's own numbers is
    built from it."""
    request, response, model = plan.layout.request, plan.layout.response, plan.model
    yield "layout: packing", request.tag == (StepRequest.tag if plan.kept else response.tag)
    sizes = (plan.parameters.slots, plan.tokens, plan.lanes)
    yield "layout: sizes of the request", (request.slots, request.tokens, request.lanes) == sizes
    yield "layout: heads", (request.heads, request.heads * request.head_size) == (model.heads, model.hidden)
    yield "layout: hidden size", request.size == model.hidden
    yield "layout: size of the answer", response.size == _outputs(model)
    rows = plan.tokens if model.task in EVERY_TOKEN else 1
    yield "layout: rows of the answer", response.rows == rows
    yield (
        "layout: bounds",
        all(0.0 < bound <= MOST_BOUND for bound in (request.bound, response.bound, plan.answer)),
    )
    yield "layout: blocks of the response", _fits(plan, response)
    yield (
        "layout: ciphertexts",
        try_make(lambda: _counts(plan.layout), ShapeError)
        == (
            {tensor.name: tensor.count for tensor in plan.request},
            [tensor.count for tensor in plan.response],
        ),
    )


def _fits(plan: Plan, response: AnyResponse) -> bool:
    slots, hidden = plan.parameters.slots, plan.model.hidden
    if plan.task == CHOICE:
        return isinstance(response, OneTextResponse) and response.chooses(slots, hidden)
    return response.fits(slots, plan.tokens, plan.lanes, hidden, _mapped(plan.model))


def _outputs(model: ModelInfo) -> int:
    """The number of outputs of an answer, or of each token's."""
    if model.task in (WORDS, NEXT) and model.embeddings is not None:
        return model.embeddings.vocab
    return len(model.labels) or model.hidden


def _mapped(model: ModelInfo) -> bool:
    """Whether a dense map gives the answer."""
    return bool(model.labels) or model.task == NEXT


def _counts(layout: Layout) -> tuple[dict[str, int], list[int]]:
    """Ciphertexts of request and response. Raises ShapeError for numbers that are no layout."""
    layout.check()
    return dict(layout.request.counts), [layout.response.count]


def _answer_rules(plan: Plan) -> Rules:
    least = least_noise(plan.parameters, plan.answer)
    yield f"noise of {plan.noise:.2g}, at least {least:.2g} is", plan.noise >= least
    yield f"decimals (0 to {MOST_DECIMALS})", 0 <= plan.decimals <= MOST_DECIMALS
    yield f"{plan.decimals} decimals at noise of {plan.noise:.2g} are", quiet(plan.decimals, plan.noise)


def _prediction_rules(prediction: Prediction, stages: int) -> Rules:
    """Yields the rules of the prediction. The hash does not cover it, and nothing that a client guards itself
    with is taken from it."""
    times = (*prediction.stage_seconds, *prediction.seconds.values(), prediction.error.bound)
    sizes = (*prediction.stage_bytes, *prediction.bytes.values())
    yield "prediction: fields", set(prediction.bytes) == BYTES
    yield "prediction: fields", SECONDS <= set(prediction.seconds) <= SECONDS | PRICED
    yield "prediction: stages", len(prediction.stage_seconds) == len(prediction.stage_bytes) == stages
    yield "prediction: seconds", all(0.0 <= value <= MOST_SECONDS for value in times)
    yield "prediction: bytes", all(0 <= value <= MOST_BYTES for value in sizes)
    yield "prediction: texts of the error", 0 <= prediction.error.texts <= MOST_COUNT
    share = prediction.error.share
    yield "prediction: share of texts", share is None or 0.0 < share < 1.0
    yield "prediction: threads", 1 <= prediction.threads <= 1 << 16
    yield "prediction: memory", max(prediction.stage_bytes) <= prediction.bytes["server_memory"]


def _unique(names: Sequence[object]) -> bool:
    return len(set(names)) == len(names)


def _population_rules(population: Population) -> Rules:
    rates = (
        population.per_text,
        population.per_text_bound,
        population.per_request,
        population.per_request_bound,
    )
    yield "population: method", population.method in (HELD_OUT, FOLDS, NOT_ESTIMATED)
    yield "population: counts", 0 <= population.far <= population.outside <= population.texts <= MOST_COUNT
    yield "population: rates", all(0.0 <= rate <= 1.0 for rate in rates)
