"""The contract within a memory budget: any backend, with handles whose ciphertexts may be on disk.

Every operation of the inner backend is passed on: handles among its arguments (alone, in lists, in lists of
lists) are brought into memory and pinned, its results become handles. Accumulators of products stay in
memory; every operation on them takes them over. Memory at most: the budget, and what the operands and results
of one operation are more than that. Where an operation has many results, others make room before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from itertools import pairwise
from typing import Any

from tacita.evaluate.spill.pool import Codec, Handle, Pool
from tacita.evaluate.spill.store import SpillStore
from tacita.slots.base import Backend, Ct, Kind, Operands, Parts, Vector
from tacita.slots.linear import LinearPlan
from tacita.slots.matrices import gather
from tacita.slots.plain import check_kinds

BOOTSTRAP_GROUP = 16  # refreshed ciphertexts are the largest there are: so many in one call of the engine

MATMUL_GROUP = 32  # outputs of a matrix product made at once, at least: each call prepares its operands
MATMUL_SUMS = 5, 8  # of 8 parts of the budget so many for its sums where operands, in the rest, come in turn


class Operation:
    """A method of the inner backend under the same name, whose results can go to disk."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, backend: SpillingBackend, owner: type) -> Callable[..., Any]:
        return partial(backend.call, self._name, True)


class SpillingBackend:
    """A backend within a memory budget; see the module. `inner` sees its own ciphertexts only; circuits see
    handles only. group: ciphertexts that one call of `inner` refreshes, at most, or one pair."""

    add = Operation()
    sub = Operation()
    neg = Operation()
    add_const = Operation()
    add_vector = Operation()
    mul = Operation()
    square = Operation()
    dot = Operation()
    mul_const = Operation()
    mul_int = Operation()
    mul_i = Operation()
    mul_vector = Operation()
    conjugate = Operation()
    rotate = Operation()
    poly = Operation()
    relinearise = Operation()
    coefficient_product = Operation()

    def __init__(
        self,
        inner: Backend,
        store: SpillStore,
        budget_bytes: int,
        codec: Codec,
        group: int = BOOTSTRAP_GROUP,
    ) -> None:
        self.pool, self._group = Pool(store, budget_bytes, codec), group
        self.slots, self.max_level = inner.slots, inner.max_level
        self._inner = inner

    def adopt(self, ct: Ct) -> Handle:
        """A handle for a ciphertext of the inner backend."""
        return self.pool.adopt(ct, self._inner.level(ct))

    def level(self, ct: Handle) -> int:
        return ct.level

    def drop_to(self, a: Handle, level: int) -> Handle:
        """Lowers a ciphertext as the contract says; where there is nothing to drop, returns `a` itself and
        loads nothing."""
        return a if level == a.level else self.call("drop_to", True, a, level)

    def rotate_many(self, a: Handle, ks: Sequence[int]) -> list[Handle]:
        handles: list[Handle] = self.call("rotate_many", True, a, ks, count=len(ks))
        return handles

    def linear(self, xs: Sequence[Handle], plan: LinearPlan) -> list[Handle]:
        handles: list[Handle] = self.call("linear", True, xs, plan, count=plan.n_outputs)
        return handles

    def products(
        self,
        left: Sequence[Sequence[Handle]],
        right: Sequence[Sequence[Handle]],
        onto: Handle | None = None,
    ) -> Handle:
        """Makes products as the contract says. They live for one loop, and are half as large again as their
        results."""
        number = len(left[0]) * len(right[0]) if left and right and onto is None else 0
        handle: Handle = self.call("products", False, left, right, onto, count=number * 3 // 2)
        return handle

    def bootstrap(self, cts: Sequence[Handle], kinds: Sequence[Kind]) -> list[Handle]:
        return self._in_groups("bootstrap", cts, kinds)

    def bootstrap_through(
        self, cts: Sequence[Handle], kinds: Sequence[Kind], harmonics: Vector
    ) -> list[Handle]:
        return self._in_groups("bootstrap_through", cts, kinds, harmonics)

    def _in_groups(
        self, name: str, cts: Sequence[Handle], kinds: Sequence[Kind], *arguments: Any
    ) -> list[Handle]:
        check_kinds(len(cts), kinds)
        groups = self._groups(len(cts), kinds.count("pair"))
        return [ct for group in groups for ct in self.call(name, True, cts[group], kinds[group], *arguments)]

    def _groups(self, count: int, paired: int) -> Iterator[slice]:
        """Yields what each call refreshes: with one of a pair the other, too, as both are one bootstrap."""
        last = 0
        while (first := last) < count:
            last = min(first + self._group, count)
            last += last % 2 if last < paired else 0
            yield slice(first, last)

    def matmul(self, xs: Operands, weights: Vector, bias: Vector | None = None) -> list[Handle]:
        """Multiplies as the contract says. Operands above the lowest level are brought down before: each for
        itself and once, while the engine would keep a copy of each beside it. Where operands and results do
        not fit the budget together, operands come in turn, those in memory first: as parts of one product of
        the inner backend, whose bits depend on no budget."""
        xs = gather(xs, weights, bias)
        lowest = min(x.level for x in xs)
        xs = [self.drop_to(x, lowest) for x in xs]
        each, budget = max(x.entry.nbytes for x in xs), self.pool.budget
        sums, of = MATMUL_SUMS
        results = list[Handle]()
        for block in _pieces(len(weights), budget * sums // of // each):
            rows, shift = weights[block], None if bias is None else bias[block]
            parts = _pieces(len(xs), budget // each - len(rows))
            if len(parts) == 1:
                results += self.call("matmul", True, xs, rows, shift, count=len(rows))
                continue
            # sums have the limbs of an operand, and so its bytes
            with self.pool.reserve(len(rows) * each), closing(self._in_turn(xs, parts)) as turns:
                outputs = self._inner.matmul(Parts(len(xs), turns), rows, shift)
            results += self._wrap(outputs, {}, True)
        return results

    def _in_turn(
        self, xs: Sequence[Handle], parts: list[slice]
    ) -> Generator[tuple[list[int], list[Ct]], None, None]:
        """Yields columns and ciphertexts of operands, which are in memory until the next are asked for."""
        order = sorted(range(len(xs)), key=lambda column: xs[column].entry.value is None)
        for part in parts:
            columns = order[part]
            handles = [xs[column] for column in columns]
            with self.pool.pinned(handles):
                yield columns, [handle.entry.value for handle in handles]

    def stage(self, name: str) -> AbstractContextManager[None]:
        return self._inner.stage(name)

    def call(self, name: str, spillable: bool, *arguments: Any, count: int = 0) -> Any:
        """Runs one operation of the inner backend. spillable: whether its results can go to disk. count:
        results, in ciphertexts like the smallest operand, for which room is made before, beyond what a budget
        keeps free anyway. Errors: its own, and those of the store."""
        handles = list(_handles(arguments))
        results = count * min((handle.entry.nbytes for handle in handles), default=0)
        with self.pool.pinned(handles, room=max(0, results - self.pool.free)):
            result = getattr(self._inner, name)(*(_values(argument) for argument in arguments))
            by_value = {id(handle.entry.value): handle for handle in handles if handle.entry.spillable}
            for handle in handles:
                if not handle.entry.spillable:
                    self.pool.consume(handle)
            return self._wrap(result, by_value, spillable)

    def _wrap(self, result: Any, by_value: dict[int, Handle], spillable: bool) -> Any:
        """Returns results as handles; an operand that the operation gave back keeps its own."""
        if isinstance(result, list):
            return [self._wrap(item, by_value, spillable) for item in result]
        if id(result) in by_value:
            return by_value[id(result)]
        return self.pool.adopt(result, self._inner.level(result), spillable=spillable)


def _pieces(count: int, most: int) -> list[slice]:
    """Returns as few equal pieces as `most` items a piece admit, which is at least MATMUL_GROUP; one of
    nothing."""
    number = max(1, -(-count // max(MATMUL_GROUP, most)))
    ends = [count * i // number for i in range(number + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def _handles(argument: Any) -> Iterator[Handle]:
    if isinstance(argument, Handle):
        yield argument
    elif isinstance(argument, list | tuple):
        for item in argument:
            yield from _handles(item)


def _values(argument: Any) -> Any:
    if isinstance(argument, Handle):
        return argument.entry.value
    if isinstance(argument, list | tuple):
        return [_values(item) for item in argument]
    return argument
