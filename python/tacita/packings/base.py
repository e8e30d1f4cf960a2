"""What a packing is: how tensors lie in slots, and each block of a model as stages on such tensors.

`lowering.lower` walks over a model's graph, asks a packing's `shared.lowering.Lowering` for the operations of
each block, and makes stages of them. A packing is one folder with the same file names as the others: linear,
attention, and lowering, which ties them together; what is the same in all of them is in `shared` and in
`operations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacita.blocks.base import Attention, FeedForward
from tacita.blocks.graph import Graph, Step
from tacita.errors import PlanError
from tacita.layouts.numbered import beside
from tacita.layouts.runs import Request, Response
from tacita.packings.encoding import Encoding
from tacita.slots.base import Backend
from tacita.slots.stage import Live, Stage, interleaved

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Operation:
    """A stage before it is known what else stays live.

    run: (backend, the live tensors) -> the tensors that it writes; it reads those in `reads`, and the
    request's masks. refreshes, complex_outputs, variants: as of `Stage`.
    """

    name: str
    reads: tuple[str, ...]
    run: Callable[[Backend, Live], Live]
    refreshes: bool = False
    complex_outputs: frozenset[str] = frozenset()
    variants: tuple[Operation, ...] = ()

    @staticmethod
    def of(
        name: str, reads: Sequence[str], writes: str | Sequence[str], function: Callable[..., Any]
    ) -> Operation:
        """Makes an operation of a function of tensors: (backend, one for each of reads) -> the one written,
        or one for each.

        An example: `Operation.of("exp", ["scores"], "exponentials", attention.exponentials)`. A mask of the
        request may stand among `reads`.
        """

        def run(be: Backend, live: Live) -> Live:
            results = function(be, *(live[tensor] for tensor in reads))
            return {writes: results} if isinstance(writes, str) else dict(zip(writes, results, strict=True))

        return Operation(name, tuple(reads), run)


@dataclass(frozen=True, eq=False)
class Form:
    """How a packing holds a tensor. encoding: of stored numbers. first: the first token alone, in the layout
    of it.

    packed_first: token 0 in place of the copies, where a packing has them. bare: of a function, which leaves
    anything where no feature is (`Linear.bare`), for a norm or an answer. weighed: stored numbers come times
    the mask, for a mean. zero_mean: features have no mean. norm: which one takes it as it is stored.
    """

    encoding: Encoding
    first: bool = False
    packed_first: bool = False
    bare: bool = False
    weighed: bool = False
    zero_mean: bool = False
    norm: str = ""


@dataclass(frozen=True)
class Tensor:
    """A tensor between blocks. live: its name among the live tensors. rows: tokens."""

    live: str
    rows: int
    form: Form


@dataclass(frozen=True)
class Block:
    """A block with its sum: residual + node(x), not yet computed.

    name: of the node. rows: of the result. x, residual: tensors; the residual's first `rows` rows are meant.
    """

    name: str
    node: Attention | FeedForward
    rows: int
    x: Tensor
    residual: Tensor


@dataclass(frozen=True)
class Target:
    """Where a block's sum goes, and how it is stored.

    live: its tensor. norm: the node that alone reads it, which takes it in a scale of its own; empty where
    others read it as well. centred: without its mean. bound: of the sum's magnitude, where there is no such
    norm. reader: the one norm that reads it too, which may take it as it is; empty for none.
    """

    live: str
    norm: str = ""
    bound: float = 0.0
    centred: bool = True
    reader: str = ""


@dataclass(frozen=True, eq=False)
class Probe:
    """How to read a live tensor for comparison with the float reference.

    tensor: live after the stage named by the probe's key. read(slot vectors) gives (texts, tokens or 1,
    features). reference: the name in the reference's trace.
    """

    tensor: str
    read: Callable[[Sequence[Array]], Array]
    reference: str

    def beside(self, count: int) -> Probe:
        """Returns the probe of so many texts side by side."""

        def read(slots: Sequence[Array]) -> Array:
            return np.concatenate([self.read([v[text::count] for v in slots]) for text in range(count)])

        return replace(self, read=read)


@dataclass(frozen=True)
class Kept:
    """A tensor that a server keeps from one request of a text to the next, so many ciphertexts. before: its
    name as it comes, beside the request. after: as it is left, beside the response, for the next request."""

    before: str
    after: str
    count: int


@dataclass(frozen=True, eq=False)
class Circuit:
    """A circuit before it is placed. stages in order; request and response: where the client's and the
    server's numbers go; probes by stage.

    fixed: tensors that come in and pass on as they came, never refreshed: of the request, and what is kept.
    kept: what a server keeps, none for a text that is asked whole. fusible: norms that specs may fuse, each
    with the stage that leaves the attended values and the one that reads the norm's result.
    """

    stages: tuple[Stage, ...]
    request: Request
    response: Response
    fixed: frozenset[str]
    probes: Mapping[str, Probe] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    fusible: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def beside(self, count: int) -> Circuit:
        """Returns the circuit of so many texts side by side: the same operations, on vectors so many times as
        long (`slots.stage.Interleaved`)."""
        if count == 1:
            return self
        return replace(
            self,
            stages=tuple(interleaved(stage, count) for stage in self.stages),
            request=beside(self.request, count),
            response=self.response.beside(count),
            probes={name: probe.beside(count) for name, probe in self.probes.items()},
        )

    @property
    def inputs(self) -> Mapping[str, int]:
        """Ciphertexts of every tensor that comes in: the request's, and what was kept."""
        return {**self.request.counts, **{tensor.before: tensor.count for tensor in self.kept}}

    @property
    def unplaced(self) -> frozenset[str]:
        """Tensors that the placement never lowers nor refreshes: those that are fixed, and what is left for
        the next request, which no stage reads and so is at any level where it was made."""
        return self.fixed | {tensor.after for tensor in self.kept}


@dataclass(frozen=True)
class Readers:
    """Who reads a norm's result. first_row: nobody but an attention of one query, and its residual.

    averaged: nobody but a mean. last: nothing is normalised after it, so it feeds the response's check.
    """

    first_row: bool
    averaged: bool
    last: bool


def first_row(readers: Sequence[Step]) -> bool:
    """Whether these are an attention of one query, and what takes its residual, and nobody else."""
    asks = [step for step in readers if step.op == "attention"]
    alone = all(step.output.shape[0] == 1 for step in asks)
    return bool(asks) and alone and {step.op for step in readers} <= {"take", "attention"}


def attentions(graph: Graph) -> list[Attention]:
    """All of a model, in order."""
    return [step.node for step in graph.steps if isinstance(step.node, Attention)]


def heads_of(graph: Graph, packing: str, *, even: bool = True) -> tuple[int, int]:
    """(heads, head size) of all attentions. even: whether the heads must divide the hidden states among them.
    Raises PlanError where they do not, where attentions differ, or there is none."""
    sizes = {(a.heads, a.head_size) for a in attentions(graph)}
    if len(sizes) != 1:
        message = f"{packing} of attentions with (heads, head size) {sorted(sizes)}"
        raise PlanError(message, hint="one kind is needed")
    ((heads, size),) = sizes
    if even and (a := attentions(graph)[0]).query.inputs != heads * size:
        what = f"packing {packing}: {heads} heads of {size} features on {a.query.inputs} hidden ones"
        raise PlanError(what, hint="use --packing rows or two parties, which have heads of any size")
    return heads, size


def refuse_node(packing: str, name: str, what: str) -> PlanError:
    """What is raised for a block or an option that a packing does not have."""
    return PlanError(f"packing {packing}: {name} has {what}", hint="use another scheme for this model")


def stages_of(
    operations: Sequence[Operation], fixed: frozenset[str], left: frozenset[str] = frozenset()
) -> list[Stage]:
    """Stages that hand on what later ones read, the request's masks to all but the last, and what is left
    behind to the end."""
    needed, stages = left, list[Stage]()
    for operation in reversed(operations):
        stages.append(_stage(operation, needed | fixed if stages else needed))
        needed |= set(operation.reads)
    return stages[::-1]


def _stage(operation: Operation, kept: frozenset[str]) -> Stage:
    def run(be: Backend, live: Live) -> Live:
        written: dict[str, Any] = operation.run(be, live)
        return {name: cts for name, cts in live.items() if name in kept and name not in written} | written

    variants = tuple(_stage(variant, kept) for variant in operation.variants)
    return Stage(operation.name, run, operation.complex_outputs, operation.refreshes, variants)
