"""A spilling backend over `plain`, where every ciphertext weighs 100 bytes: helpers for the tests of spill
and resume."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from tacita.evaluate.spill import Codec, Handle, SpillingBackend, SpillStore
from tacita.evaluate.spill.folder import OwnFolder
from tacita.evaluate.spill.store import SPARE
from tacita.slots.plain import PlainBackend, PlainCt, PlainProducts

WEIGHT = 100


def _size_of(value: Any) -> int:
    if isinstance(value, PlainProducts):
        return WEIGHT * value.values.shape[0] * value.values.shape[1]
    return WEIGHT


def _dump(ct: PlainCt) -> bytes:
    out = io.BytesIO()
    np.savez(out, values=ct.values, level=ct.level)
    return out.getvalue()


def _load(data: bytes) -> PlainCt:
    found = np.load(io.BytesIO(data))
    return PlainCt(found["values"], int(found["level"]))


CODEC = Codec(_size_of, _dump, _load)


def spilling(store: SpillStore, ciphertexts: int, slots: int = 64, max_level: int = 13) -> SpillingBackend:
    """With room for so many ciphertexts."""
    return SpillingBackend(PlainBackend(slots, max_level), store, WEIGHT * ciphertexts, CODEC)


def leave_disk(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Lets stores have so many bytes of the disk, those that they hold already included."""

    def free(own: OwnFolder) -> int:
        return SPARE + room - sum(path.stat().st_size for path in own.path.glob("*.spill"))

    monkeypatch.setattr(OwnFolder, "free", free)


def encrypt(be: SpillingBackend, values: Any, level: int | None = None) -> Handle:
    return be.adopt(PlainBackend(be.slots, be.max_level).encrypt(values, level))


def decrypt(be: SpillingBackend, ct: Handle) -> Any:
    with be.pool.pinned([ct]):
        return ct.entry.value.values.astype(np.complex128)
