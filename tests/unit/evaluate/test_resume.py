"""Resume points on plain: a run that ends anywhere goes on from its last point and gives the same, or starts
anew."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spilling
from spilling import decrypt, encrypt

from tacita.errors import FileError
from tacita.evaluate import resume
from tacita.evaluate.resume import MANIFEST, Checkpoints, Run
from tacita.evaluate.spill import SpillStore
from tacita.evaluate.spill.folder import JOURNAL
from tacita.packings import executor
from tacita.packings.executor import Reached
from tacita.plans.plan import PlacedStage
from tacita.progress import Progress
from tacita.slots.stage import Stage

RUN = Run("plan", "key", "request", "0")
NAMES = ["split", "join", "twist", "tail"]


class Killed(Exception):
    """Stands for the end of the process."""


def _split(be: Any, live: Any) -> Any:
    x = live["x"][0]
    return {**live, "z": (be.add(x, be.mul_i(be.rotate(x, 3))), x), "y": (x, be.square(x))}


def _join(be: Any, live: Any) -> Any:
    return {**live, "y": (be.mul(live["y"][0], live["y"][1]),)}


def _twist(be: Any, live: Any) -> Any:
    return {"z": live["z"], "y": (be.add(live["y"][0], live["z"][0]),)}


def _tail(be: Any, live: Any) -> Any:
    return {"y": (be.mul(live["y"][0], live["z"][0]), be.conjugate(live["z"][0]))}


STAGES = [
    Stage("split", _split, frozenset({"z"})),
    Stage("join", _join),
    Stage("twist", _twist),
    Stage("tail", _tail),
]
PLACED = [
    PlacedStage("split", (), (), {}, {}, {}),
    PlacedStage("join", (), (), {}, {}, {}),
    PlacedStage("twist", (), (), {}, {}, {}),
    PlacedStage("tail", ("z",), ("complex", "complex"), {"y": 1}, {}, {}),
]


def found_in(folder: Path, run: Run = RUN) -> resume.ResumePoint | None:
    store = SpillStore(folder)
    try:
        return resume.find(store, run)
    finally:
        store.close(keep=True)


def start(store: SpillStore, room: int) -> tuple[Any, Any]:
    be = spilling.spilling(store, room, max_level=4)
    return be, {"x": (encrypt(be, np.random.default_rng(1).uniform(-0.5, 0.5, 64)),)}


def evaluate(folder: Path, room: int, *, die_after: int = 0) -> tuple[Any, int, list[str]]:
    """(slots of the answer, stage where it began, notices); Killed after so many stages."""
    told: list[str] = []
    store = SpillStore(folder)
    try:
        be, live = start(store, room)
        begin, complex_names = 0, frozenset[str]()
        if point := resume.find(store, RUN):
            live = resume.restore(be, point)
            begin, complex_names = point.index, frozenset(point.complex_names)
        points = Checkpoints(be, RUN, NAMES, 0.0, told.append)

        def reached(now: Reached) -> None:
            points(now)
            if now.index == die_after:
                raise Killed

        out = executor.run(
            PLACED, STAGES, be, live, begin=begin, complex_names=complex_names, reached=reached
        )
        return np.array([decrypt(be, ct) for ct in out["y"]]), begin, told
    finally:
        store.close(keep=True)


@pytest.mark.parametrize("room", [1, 2, 100])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_killed_run_goes_on_and_gives_the_same(stages: int, room: int, tmp_path: Path) -> None:
    want, _, _ = evaluate(tmp_path / "whole", room)
    with pytest.raises(Killed):
        evaluate(tmp_path / "killed", room, die_after=stages)
    found, begin, _ = evaluate(tmp_path / "killed", room)
    assert begin == stages
    assert np.array_equal(found, want)
    assert np.any(want[1].imag)  # z is bootstrapped with both its parts


def test_a_run_can_be_killed_after_every_stage(tmp_path: Path) -> None:
    want, _, _ = evaluate(tmp_path / "whole", 2)
    for stages in (1, 2, 3):
        with pytest.raises(Killed):
            evaluate(tmp_path / "killed", 2, die_after=stages)
    assert np.array_equal(evaluate(tmp_path / "killed", 2)[0], want)


def test_a_point_names_each_ciphertext_once_and_no_file_is_left_over(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        evaluate(tmp_path, 100, die_after=1)
    point = found_in(tmp_path)
    assert point is not None
    assert (point.index, point.stage, point.complex_names) == (1, "split", ("z",))
    assert {name: len(cts) for name, cts in point.tensors.items()} == {"x": 1, "y": 2, "z": 2}
    assert len(point.files) == 3  # x stands in all three tensors
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {MANIFEST, JOURNAL} | {file.name for file in point.files}


def test_what_a_killed_process_left_besides_is_swept(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        evaluate(tmp_path, 2, die_after=2)
    left = ("0123456789abcdef.spill", "fedcba9876543210.spill.part", "resume.json.part")
    with (tmp_path / JOURNAL).open("a") as journal:
        journal.write("".join(f"\n{name}" for name in left))
    for name in left:
        (tmp_path / name).write_bytes(b"half")
    evaluate(tmp_path, 2)
    assert not [name for name in left if (tmp_path / name).exists()]


@pytest.mark.parametrize("field", ["plan", "key", "request", "release"])
def test_a_point_of_another_run_is_refused(field: str, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        evaluate(tmp_path, 2, die_after=1)
    with pytest.raises(FileError, match=f"of another {field}"):
        found_in(tmp_path, dataclasses.replace(RUN, **{field: "other"}))


def _rewritten(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        found = json.loads(data)
        change(found)
        return json.dumps(found).encode()

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[:-5], "not a whole resume point"),
        (lambda data: b"", "not a whole resume point"),
        (lambda data: b"[]", "another format"),
        (_rewritten(lambda found: found.update(format="x")), "another format"),
        (_rewritten(lambda found: found.update(version=9)), "version 9, this program reads 1"),
        (_rewritten(lambda found: found.update(index=3)), "checksum does not match"),
        (_rewritten(lambda found: found.pop("stage")), "checksum does not match"),
    ],
    ids=["truncated", "empty", "list", "format", "version", "altered", "field"],
)
def test_a_damaged_manifest_is_refused(spoil: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        evaluate(tmp_path, 2, die_after=1)
    path = tmp_path / MANIFEST
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(FileError, match=message):
        found_in(tmp_path)


def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        evaluate(tmp_path, 2, die_after=1)
    point = found_in(tmp_path)
    assert point is not None
    (saved,) = point.tensors["x"]
    outside = dataclasses.replace(saved, file=dataclasses.replace(saved.file, name="../secret.key"))
    store = SpillStore(tmp_path)
    be, _ = start(store, 2)
    resume.save(be, dataclasses.replace(point, tensors={"x": (outside,)}))
    store.close(keep=True)
    with pytest.raises(FileError, match="names the file"):
        found_in(tmp_path)


def test_a_damaged_file_is_found_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        evaluate(tmp_path, 2, die_after=1)
    path = next(tmp_path.glob("*.spill"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileError, match="were spilled"):
        evaluate(tmp_path, 2)


def test_without_disk_for_a_point_the_run_goes_on_and_the_last_point_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want, _, _ = evaluate(tmp_path / "whole", 100)
    with pytest.raises(Killed):
        evaluate(tmp_path / "killed", 100, die_after=1)
    before = (tmp_path / "killed" / MANIFEST).read_bytes()
    full = sum(path.stat().st_size for path in (tmp_path / "killed").glob("*.spill"))
    spilling.leave_disk(monkeypatch, full)
    found, begin, told = evaluate(tmp_path / "killed", 100)
    monkeypatch.undo()
    assert begin == 1
    assert np.array_equal(found, want)
    assert told[0].startswith("no resume point after stage join: spilling a ciphertext needs")
    assert (tmp_path / "killed" / MANIFEST).read_bytes() == before
    assert np.array_equal(evaluate(tmp_path / "killed", 100)[0], want)


def test_progress_of_a_resumed_run_counts_all_stages(tmp_path: Path) -> None:
    store = SpillStore(tmp_path)
    be, live = start(store, 2)
    point: list[Reached] = []
    executor.run(PLACED, STAGES, be, dict(live), reached=point.append)
    seen: list[Progress] = []
    executor.run(
        PLACED,
        STAGES,
        be,
        point[1].live,
        begin=point[1].index,
        complex_names=point[1].complex_names,
        predicted=[1, 2, 3, 4],
        progress=seen.append,
    )
    assert [(now.stage, now.index, now.total) for now in seen] == [
        ("twist", 2, 4),
        ("tail", 3, 4),
        ("done", 4, 4),
    ]
    assert (seen[0].left, seen[-1].left) == (7.0, 0.0)
    store.close(keep=False)


def test_points_are_so_many_seconds_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    store = SpillStore(tmp_path)
    be, live = start(store, 2)
    points = Checkpoints(be, RUN, NAMES, 60.0, lambda _: None)
    for seconds, index in ((59.0, 0), (61.0, 2), (119.0, 2), (122.0, 3)):
        now[0] = 100.0 + seconds
        points(Reached(2 if seconds < 120 else 3, live))
        point = resume.find(store, RUN)
        assert (point.index if point else 0) == index
    store.close(keep=False)


def test_the_workspace_is_removed_unless_it_holds_a_point(tmp_path: Path) -> None:
    folder = tmp_path / "resume"
    with resume.workspace(folder) as store:
        store.write(b"x")
    assert not folder.exists()
    with pytest.raises(Killed), resume.workspace(folder) as store:
        store.write(b"x")
        raise Killed
    assert not folder.exists()
    with pytest.raises(Killed), resume.workspace(folder) as store:
        be, live = start(store, 2)
        Checkpoints(be, RUN, NAMES, 0.0, lambda _: None)(Reached(1, live))
        raise Killed
    assert (folder / MANIFEST).exists()
