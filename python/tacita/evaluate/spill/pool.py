"""Ciphertexts in memory up to a budget; above it the least recently used ones go to the store.

A handle stands for a ciphertext wherever that is. Ciphertexts never change, so one that was written once is
dropped the next time without writing; its file goes when its handle dies. Operands of a running operation are
pinned: they, and the results until they are taken in, are the only reason why the budget can be exceeded.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tacita.errors import ShapeError
from tacita.evaluate.spill.store import SpillFile, SpillStore


@dataclass(frozen=True)
class Codec:
    """How the pool sees ciphertexts: bytes in memory, packed, and back."""

    size_of: Callable[[Any], int]
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]


@dataclass(eq=False)
class Slot:
    """What a handle stands for. value: None while only `file` has it. nbytes: in memory. pins: operations
    using it."""

    nbytes: int
    value: Any
    file: SpillFile | None = None
    spillable: bool = True
    pins: int = 0
    dead: bool = False


class Handle:
    """A ciphertext (or an accumulator of products) of the inner backend, in memory or on disk. Level is known
    anyway."""

    __slots__ = ("__weakref__", "level", "slot")

    def __init__(self, level: int, slot: Slot) -> None:
        self.level, self.slot = level, slot


class Pool:
    """budget: bytes of ciphertexts to keep in memory. resident, peak: bytes there now and at most."""

    def __init__(self, store: SpillStore, budget: int, codec: Codec) -> None:
        self.store, self.budget, self.codec = store, budget, codec
        self.resident = self.peak = 0
        self._recent: OrderedDict[int, Slot] = OrderedDict()  # in memory, least recently used first

    def adopt(self, value: Any, level: int, *, spillable: bool = True) -> Handle:
        """A handle for a new value. Raises ResourceError when room must be made and the disk is full."""
        slot = Slot(self.codec.size_of(value), value, spillable=spillable)
        handle = self._handle(level, slot)
        self._enter(slot)
        self._shrink()
        return handle

    def revive(self, file: SpillFile, level: int, nbytes: int) -> Handle:
        """A handle for a file of the store; nbytes: what it will take in memory."""
        return self._handle(level, Slot(nbytes, None, file))

    def persist(self, handle: Handle) -> SpillFile:
        """The handle's file, written now if it has none; the value stays where it is."""
        slot = handle.slot
        if slot.file is None:
            slot.file = self.store.write(self.codec.dump(slot.value))
        return slot.file

    def packed(self, handle: Handle) -> bytes:
        """The packed ciphertext, from memory or from disk."""
        slot = handle.slot
        return self.codec.dump(slot.value) if slot.file is None else self.store.load(slot.file)

    @contextmanager
    def pinned(self, handles: Sequence[Handle], *, room: int = 0) -> Iterator[None]:
        """All these are in memory inside the block; others make room first, for these and for `room` bytes
        that will be made of them. Raises FileError, ResourceError."""
        slots = list({id(handle.slot): handle.slot for handle in handles}.values())
        for slot in slots:
            slot.pins += 1
        try:
            absent = [slot for slot in slots if slot.value is None]
            self._shrink(room=room + sum(slot.nbytes for slot in absent))
            for slot in absent:
                self._fetch(slot)
            for slot in slots:
                self._recent.move_to_end(id(slot))
            yield
        finally:
            for slot in slots:
                slot.pins -= 1
        self._shrink()

    def _handle(self, level: int, slot: Slot) -> Handle:
        handle = Handle(level, slot)
        weakref.finalize(handle, self._release, slot).atexit = False
        return handle

    def give_up(self, handle: Handle) -> None:
        """The operation that just ended took this accumulator over: it counts no more and cannot be used
        again."""
        self._leave(handle.slot)

    def _fetch(self, slot: Slot) -> None:
        if slot.file is None:
            raise ShapeError(
                "accumulators of products that an earlier operation took over", hint="use its result"
            )
        slot.value = self.codec.load(self.store.load(slot.file))
        slot.nbytes = self.codec.size_of(slot.value)
        self._enter(slot)

    def _enter(self, slot: Slot) -> None:
        self._recent[id(slot)] = slot
        self.resident += slot.nbytes
        self.peak = max(self.peak, self.resident)

    def _shrink(self, room: int = 0) -> None:
        """Drops the least recently used until `room` more bytes fit, as far as pins allow."""
        if self.resident + room <= self.budget:
            return
        for slot in list(self._recent.values()):
            if self.resident + room <= self.budget:
                return
            if slot.spillable and not slot.pins and not slot.dead:
                self._spill(slot)

    def _spill(self, slot: Slot) -> None:
        """Writes before it drops: a full disk loses nothing."""
        if slot.file is None:
            slot.file = self.store.write(self.codec.dump(slot.value))
        if slot.dead:  # its handle died while it was written
            self.store.remove(slot.file)
        else:
            self._leave(slot)

    def _leave(self, slot: Slot) -> None:
        del self._recent[id(slot)]
        self.resident -= slot.nbytes
        slot.value = None

    def _release(self, slot: Slot) -> None:
        """The handle is gone: memory and disk are free."""
        slot.dead = True
        if slot.value is not None:
            self._leave(slot)
        if slot.file is not None:
            self.store.remove(slot.file)
