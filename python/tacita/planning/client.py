"""What the client of a plan on ciphertexts does, as public data: for clients that hold no packing, as a page.

The plan names a packing, whose Python says which slot holds which number. Here that is asked of the packing
itself: a sample of numbered entries is packed, and the slots then tell where each one went. The result is
checked against the packing on another sample, so that a packing that does more than moving numbers is refused
rather than described wrongly. As public as the plan, whose hash it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.errors import PlanError
from tacita.layouts.runs import Request, Response
from tacita.layouts.runs import Runs as Places
from tacita.plans.json_fields import canonical
from tacita.plans.plan import Plan
from tacita.texts.embedding import FrontConfig
from tacita.texts.task import TEXT

FORMAT, VERSION = "tacita-files-client", 2
MAX_BYTES = 8 << 20  # that a client reads
HIDDEN, MASK = "hidden", "mask"
HINT = "use the Python client: tacita ask"
Runs = list[tuple[int, int, int, int]]
Slots = NDArray[np.float64]
Whole = Request


def described(plan: Plan) -> bytes:
    """The description as canonical JSON. Takes milliseconds, packs two samples.

    request: of each tensor its level, what it is made of (hidden states by rows, divided by `bound`, or 1/n
    at n real tokens), and of each ciphertext runs (first slot, count, first number, stride); other slots are
    zero. response: its level, how far copies may be apart, and (ciphertext, slot) of the numbers, of their
    copies and of half the norm check. Raises PlanError for what a page does not read: batches, images,
    answers for every token, vectors, products in coefficients.
    """
    request, response = plan.layout.request, plan.layout.response
    embeddings = plan.model.embeddings
    if embeddings is None or embeddings.image is not None or plan.backwards or plan.task != TEXT:
        raise PlanError("client: an input or an answer that pages have no form for", hint=HINT)
    if plan.batch != 1 or plan.kept:
        raise PlanError(f"client: packing {plan.packing}", hint=HINT)
    if response.rows != 1 or plan.normalise or plan.coefficients is not None:
        raise PlanError("client: vectors, or keys of coefficient products", hint=HINT)
    front = {name: value for name, value in vars(FrontConfig.of(embeddings)).items() if name != "image"}
    data = canonical(
        {
            "format": FORMAT,
            "version": VERSION,
            "plan": plan.hash,
            "preset": plan.parameters.preset,
            "tokens": plan.tokens,
            "hidden": plan.hidden,
            "bound": request.bound,
            "rotations": plan.rotations,
            "request": _tensors(plan, request),
            "response": _places(plan, response),
            "front": front,
            "reading": _reading(plan),
        }
    )
    if len(data) > MAX_BYTES:
        raise PlanError(f"client: a description of {len(data)} bytes, at most {MAX_BYTES}", hint=HINT)
    return data


def _reading(plan: Plan) -> dict[str, Any]:
    basics = {"name": plan.name, "task": plan.task, "problem": plan.problem, "labels": plan.labels}
    return {
        **basics,
        "decimals": plan.decimals,
        "parts": round(10.0**-plan.decimals / plan.logit_step),
        "bound": float(plan.answer),
        "normalise": plan.normalise,
    }


def _places(plan: Plan, response: Response) -> dict[str, Any]:
    (tensor,) = plan.response
    return {
        "name": tensor.name,
        "count": tensor.count,
        "level": tensor.level,
        "numbers": _at(response, response.numbers),
        "copies": _at(response, response.copies),
        "check": divmod(response.norms[0][0], response.slots),
        "bound": response.bound,
        "agreement": plan.agreement,
    }


def _at(response: Response, runs: Places) -> list[tuple[int, int]]:
    """Returns (ciphertext, slot) of each number of an answer of one text, one row."""
    places = [0] * response.size
    for run in runs:
        slot, number, times, apart, step = run if len(run) > 2 else (*run, 1, 1, 1)
        for i in range(times):
            places[number + i * step] = slot + i * apart
    return [divmod(place, response.slots) for place in places]


def _tensors(plan: Plan, request: Whole) -> list[dict[str, Any]]:
    """Describes each tensor, in alphabetical order. Raises PlanError where runs do not say what the packing
    does."""
    states, keep = _numbered(request)
    packed = request.pack([(states * request.bound, keep)])
    levels = {tensor.name: tensor.level for tensor in plan.request}
    tensors = []
    for name, vectors in sorted(packed.items()):
        source = MASK if name != HIDDEN else HIDDEN
        scale = keep.sum() if source == MASK else 1.0
        runs = [_runs(np.rint(np.asarray(vector) * scale)) for vector in vectors]
        tensors.append({"name": name, "level": levels[name], "source": source, "vectors": runs})
    _check(request, tensors)
    return tensors


def _numbered(request: Whole) -> tuple[Slots, Slots]:
    """Hidden states and mask whose entries are their numbers, from 1 on."""
    count, tokens = request.tokens * request.size, request.tokens
    return np.arange(1.0, count + 1.0).reshape(tokens, request.size), np.arange(1.0, tokens + 1.0)


def _runs(numbers: Slots) -> Runs:
    """Slots that hold numbers from 1 on, 0 for none -> runs, greedily."""
    return list(_each_run(numbers.astype(np.int64) - 1))


def _each_run(numbers: NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    at, values = 0, numbers.tolist()
    while at < len(values):
        if values[at] < 0:
            at += 1
            continue
        end = at + 1
        stride = values[end] - values[at] if end < len(values) else 0
        if stride >= 0 and end < len(values) and values[end] >= 0:
            while end < len(values) and values[end] - values[end - 1] == stride:
                end += 1
        else:
            stride = 0
        yield at, end - at, values[at], stride
        at = end


def _check(request: Whole, tensors: list[dict[str, Any]]) -> None:
    generator = np.random.default_rng(1)
    states = generator.uniform(-1.0, 1.0, (request.tokens, request.size)) * request.bound
    keep = (np.arange(request.tokens) < max(1, request.tokens // 3)).astype(np.float64)
    numbers = {HIDDEN: (states / request.bound).reshape(-1), MASK: keep / keep.sum()}
    packed = request.pack([(states, keep)])
    for tensor in tensors:
        for runs, vector in zip(tensor["vectors"], packed[tensor["name"]], strict=True):
            if not np.array_equal(_filled(runs, numbers[tensor["source"]], request.slots), vector):
                message = f"client: tensor {tensor['name']} holds more than numbers that were moved"
                raise PlanError(message, hint=HINT)


def _filled(runs: Runs, numbers: Slots, slots: int) -> Slots:
    """Fills slots from runs, as a client does."""
    filled = np.zeros(slots)
    for first, count, source, stride in runs:
        filled[first : first + count] = numbers[source + stride * np.arange(count)]
    return filled
