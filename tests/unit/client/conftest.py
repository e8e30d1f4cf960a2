"""A service by hand for files of remote clients; those that change what it is have one a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_api import Fake, fake_service

from tacita.client import keys


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fake]:
    with fake_service(tmp_path_factory.mktemp("fake") / "service") as serving:
        yield serving


@pytest.fixture(autouse=True)
def chunks_of_4_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of a toy ring are several chunks."""
    monkeypatch.setattr(keys, "CHUNK_BYTES", 1 << 22)


@pytest.fixture
def fake(shared_service: Fake) -> Iterator[Fake]:
    yield shared_service
    shared_service.faults, shared_service.calls = [], []
    shared_service.complete.clear()
