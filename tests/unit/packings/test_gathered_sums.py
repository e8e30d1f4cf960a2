"""Row sums of several windows in one ciphertext: each comes back to its own heads, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from tacita.layouts.rows import RowsShape
from tacita.layouts.windows import head_windows
from tacita.packings.rows.division import Gathered
from tacita.packings.rows.linear import unfold_plan
from tacita.slots.plain import PlainBackend
from tacita.slots.sim import SimBackend

SLOTS, TOKENS = 1024, 16


@pytest.mark.parametrize("heads", [8, 12, 20])
def test_each_sum_comes_back_to_all_positions_of_its_head(heads: int) -> None:
    windows = head_windows(RowsShape(SLOTS, TOKENS), heads, 16)
    gathered = Gathered.of(windows)
    assert gathered is not None and len(gathered.windows) == heads // 4
    rng, be = np.random.default_rng(1), PlainBackend(SLOTS)
    wanted = rng.normal(size=(len(windows), TOKENS, 4))  # a sum for each window, token and head
    folded = np.zeros((len(windows), TOKENS, 64))
    folded[:, :, :32] = np.repeat(wanted, 8, axis=2)
    folded[:, :, 32:] = 9.0  # what stands beyond the first copy is no sum
    zero, total = be.encrypt(np.zeros(SLOTS)), be.encrypt(np.zeros(SLOTS))
    for number, (window, sums) in enumerate(zip(windows, folded, strict=True)):
        plan = unfold_plan(window, 0.5, 2.0, gathered.places(number))
        _, placed = be.linear([zero, zero, be.encrypt(sums.reshape(-1))], plan)
        total = be.add(total, placed)
    spread = be.linear([total], gathered.spread)
    for ct, sums in zip(spread, wanted, strict=True):
        found = be.decrypt(ct).reshape(TOKENS, 64)
        assert np.allclose(found, 2.0 * np.repeat(sums, 16, axis=1))
    assert np.array_equal(gathered.filled, np.any([gathered.places(n) for n in range(len(windows))], axis=0))


def test_one_window_has_nothing_to_gather_and_many_have_no_room() -> None:
    shape = RowsShape(SLOTS, TOKENS)
    assert Gathered.of([]) is None
    assert Gathered.of(head_windows(shape, 4, 16)) is None
    assert Gathered.of(head_windows(shape, 4 * 17, 16)) is None  # 17 windows, heads of 16 positions


def test_bert_base_gathers_three_windows_for_few_rotations() -> None:
    gathered = Gathered.of(head_windows(RowsShape(32768, 128), 12, 64))
    assert gathered is not None and (len(gathered.windows), gathered.part) == (3, 16)
    be = SimBackend(32768)
    assert len(be.linear([be.input()], gathered.spread)) == 3
    assert len(be.rotation_levels) <= 5
