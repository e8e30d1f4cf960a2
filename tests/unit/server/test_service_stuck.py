"""Workers that hang within a stage: after how long they are ended, and what is told of their job."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import ANY

import pytest
from service_dispatch import settled
from service_world import plan, world
from test_service_pools import Stage, job, played

from tacita.progress import Progress
from tacita.server.core.service import LOOK_SECONDS
from tacita.server.jobs.messages import Passed
from tacita.server.jobs.pool import PACE, PAUSE, WorkerPool

PLANNED = (3.0, 4.0)  # seconds of each stage
FIRST = PAUSE + PACE * PLANNED[0]


@pytest.mark.parametrize("ending", ["", "cancelled", "deadline"])
def test_a_job_that_is_stuck_within_a_stage_fails_and_its_worker_is_ended(ending: str) -> None:
    """Also where it was told to end before its next stage, which it does not reach."""

    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.submit(job("a", deadline=stage.now + 1e-6 if ending == "deadline" else None))
        pool.submit(job("b", "bob"))
        await settled()
        pool.look(PAUSE - 1.0)
        stage.puppet.passes()
        await settled()
        if ending == "cancelled":
            pool.cancel("a")
        pool.look(FIRST)
        await settled()
        assert pool.works("a") and len(stage.puppets) == 1, "it may be slow"
        assert stage.puppet.told_to_stop == (["a"] if ending else [])
        pool.look(1.0)
        await settled()
        assert stage.puppets[0].ended and not pool.works("a") and stage.puppet.job == "b"
        why = {"": ("stuck", "its evaluation was stuck"), "deadline": ("deadline", ANY)}
        assert stage.book.why == ({"a": why[ending]} if ending in why else {})
        assert stage.book.of("running") == ["a", "b"] and not stage.book.of("waiting")

    asyncio.run(played(test, planned=PLANNED)())


def test_before_its_first_stage_and_behind_its_last_a_job_has_time_too() -> None:
    async def test(stage: Stage, pool: WorkerPool) -> None:
        pool.look(1e9)
        for id in "abc":
            pool.submit(job(id))
        await settled()
        pool.look(PAUSE)
        stage.puppet.says(Passed("a", Progress("done", 2, 2, 1.0, 0.0)))
        await settled()
        pool.look(PAUSE)
        stage.puppet.does()
        await settled()
        pool.look(PAUSE + 1.0)
        await settled()
        assert (stage.book.of("done"), list(stage.book.why)) == (["a"], ["b"])
        stage.puppet.does()
        await settled()
        assert stage.book.of("done") == ["a", "c"] and not stage.book.of("waiting")

    asyncio.run(played(test, planned=PLANNED)())


def test_a_service_looks_at_its_workers_and_a_client_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path / "data", monkeypatch) as there:
        there.put_keys()
        id, before = there.post().json()["id"], there.pool.looked
        there.runner.run(there.service.look())
        assert there.pool.looked > before and (there.pool.looked - before) % LOOK_SECONDS == 0.0
        assert tuple(there.pool.planned) == plan().prediction.stage_seconds
        there.pool.fail(id, "stuck", "its evaluation was stuck", "")
        found = there.call("GET", f"/v1/requests/{id}").json()["problem"]
        assert (found["status"], found["code"]) == (500, "stuck") and "within a stage" in found["detail"]
