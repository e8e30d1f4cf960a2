"""A session with a two-party server that outlives its connections: what a caller who leaves costs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tacita.client.calls import LeftError
from tacita.client.connected import Connected
from tacita.errors import GoneError


@pytest.mark.parametrize("error", [LeftError("its caller was cancelled"), KeyboardInterrupt(), None])
def test_a_preparation_that_ends_in_the_middle_costs_its_connection(error: BaseException | None) -> None:
    """The server waits for the rest of a map: whatever a later text said would be taken for it."""
    closed = list[bool]()

    def prepare_map(watch: Any) -> bool:
        raise error or GoneError("the connection broke", hint="")

    client: Any = SimpleNamespace(prepare_map=prepare_map)
    session: Any = SimpleNamespace(ready=0, client=client, hang_up=lambda: closed.append(True))
    connected = Connected.__new__(Connected)
    connected._resting, connected._prepared = [session], 1
    if error is None:
        assert not connected._prepare_map(lambda step: None)
    else:
        with pytest.raises(type(error)):
            connected._prepare_map(lambda step: None)
    assert closed == [True]
