"""Ciphertexts in memory up to a budget; above it those go to the store that are there already, then the least
recently used ones.

A handle stands for a ciphertext wherever that is. Ciphertexts never change, so one that was written once is
dropped the next time without writing; its file goes when its handle dies. Operands of a running operation are
pinned: they, and the results until they are taken in, are the only reason why the budget can be exceeded.

Inputs of a layer outlive many scores, and are read by several products in a row. Dropping them rather than
what was made last writes half as much (a MiniLM batch at 12 GB: 52 GB a layer for 78) and reads a third less.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tacita.errors import ShapeError
from tacita.evaluate.keyring import RESULTS
from tacita.evaluate.spill.store import SpillFile, SpillStore
from tacita.resources import in_threads
from tacita.resources import threads as all_threads

MOST_THREADS = 4  # that pack, hash and read ciphertexts


@dataclass(frozen=True)
class Codec:
    """How the pool sees ciphertexts: bytes in memory, packed, and back."""

    size_of: Callable[[Any], int]
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]


@dataclass(eq=False)
class Entry:
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

    __slots__ = ("__weakref__", "entry", "level")

    def __init__(self, level: int, entry: Entry) -> None:
        self.level, self.entry = level, entry


class Pool:
    """budget: bytes of ciphertexts to keep in memory. free: of those beyond it that the results of an
    operation may take before others make room. resident, peak: bytes there now and at most."""

    def __init__(self, store: SpillStore, budget: int, codec: Codec) -> None:
        self.store, self.budget, self.codec = store, budget, codec
        self.free = budget // RESULTS
        self.resident = self.peak = 0
        self._recent: OrderedDict[int, Entry] = OrderedDict()  # in memory, least recently used first

    def adopt(self, value: Any, level: int, *, spillable: bool = True) -> Handle:
        """A handle for a new value. Raises ResourceError when room must be made and the disk is full."""
        entry = Entry(self.codec.size_of(value), value, spillable=spillable)
        handle = self._handle(level, entry)
        self._enter(entry)
        self._shrink()
        return handle

    def revive(self, file: SpillFile, level: int, nbytes: int) -> Handle:
        """A handle for a file of the store; nbytes: what it will take in memory."""
        return self._handle(level, Entry(nbytes, None, file))

    def persist(self, handle: Handle) -> SpillFile:
        """The handle's file, written now if it has none; the value stays where it is."""
        entry = handle.entry
        if entry.file is None:
            entry.file = self.store.write(self.codec.dump(entry.value))
        return entry.file

    def packed(self, handle: Handle) -> bytes:
        """The packed ciphertext, from memory or from disk."""
        entry = handle.entry
        return self.codec.dump(entry.value) if entry.file is None else self.store.load(entry.file)

    @contextmanager
    def pinned(self, handles: Sequence[Handle], *, room: int = 0) -> Iterator[None]:
        """All these are in memory inside the block; others make room first, for these and for `room` bytes
        that will be made of them. Raises FileError, ResourceError."""
        entries = list({id(handle.entry): handle.entry for handle in handles}.values())
        for entry in entries:
            entry.pins += 1
        try:
            absent = [entry for entry in entries if entry.value is None]
            self._shrink(room=room + sum(entry.nbytes for entry in absent))
            for entry, value in zip(absent, self._each(self._load, absent), strict=True):
                entry.value, entry.nbytes = value, self.codec.size_of(value)
                self._enter(entry)
            for entry in entries:
                self._recent.move_to_end(id(entry))
            yield
        finally:
            for entry in entries:
                entry.pins -= 1
        self._shrink()

    @contextmanager
    def reserve(self, nbytes: int) -> Iterator[None]:
        """Inside the block so many bytes are those of results to come: others make room first, and what is
        kept free for results counts as budget."""
        self._shrink(room=nbytes - self.free)
        lent, self.free = self.free, 0
        self.budget += lent
        self._grow(nbytes)
        try:
            yield
        finally:
            self.resident -= nbytes
            self.budget, self.free = self.budget - lent, lent
            self._shrink()

    def _handle(self, level: int, entry: Entry) -> Handle:
        handle = Handle(level, entry)
        weakref.finalize(handle, self._release, entry).atexit = False
        return handle

    def consume(self, handle: Handle) -> None:
        """The operation that just ended took this accumulator over: it counts no more and cannot be used
        again."""
        self._leave(handle.entry)

    def _each(self, work: Callable[[Entry], Any], entries: Sequence[Entry]) -> Iterator[Any]:
        return in_threads(work, entries, min(len(entries), all_threads(), MOST_THREADS))

    def _load(self, entry: Entry) -> Any:
        if entry.file is None:
            raise ShapeError(
                "accumulators of products that an earlier operation took over", hint="use its result"
            )
        return self.codec.load(self.store.load(entry.file))

    def _enter(self, entry: Entry) -> None:
        self._recent[id(entry)] = entry
        self._grow(entry.nbytes)

    def _grow(self, nbytes: int) -> None:
        self.resident += nbytes
        self.peak = max(self.peak, self.resident)

    def _shrink(self, room: int = 0) -> None:
        """Drops ciphertexts until `room` more bytes fit, as far as pins allow. Writes before it drops: a full
        disk loses nothing."""
        victims = self._victims(self.resident + room - self.budget)
        for _ in self._each(self._write, [entry for entry in victims if entry.file is None]):
            pass
        for entry in victims:
            if entry.dead:  # its handle died while it was written
                self._delete(entry)
            else:
                self._leave(entry)

    def _victims(self, excess: int) -> list[Entry]:
        """Returns entries of so many bytes: first those that have a file."""
        if excess <= 0:
            return []
        able = [e for e in self._recent.values() if e.spillable and not e.pins and not e.dead]
        victims: list[Entry] = []
        for entry in sorted(able, key=lambda entry: entry.file is None):  # stable: least recently used first
            if excess <= 0:
                break
            victims.append(entry)
            excess -= entry.nbytes
        return victims

    def _write(self, entry: Entry) -> None:
        if (value := entry.value) is not None:  # else its handle died just now
            entry.file = self.store.write(self.codec.dump(value))

    def _leave(self, entry: Entry) -> None:
        del self._recent[id(entry)]
        self.resident -= entry.nbytes
        entry.value = None

    def _release(self, entry: Entry) -> None:
        """The handle is gone: memory and disk are free."""
        entry.dead = True
        if entry.value is not None:
            self._leave(entry)
        self._delete(entry)

    def _delete(self, entry: Entry) -> None:
        file, entry.file = entry.file, None
        if file is not None:
            self.store.remove(file)
