"""`[run] device`: every command that evaluates reads it, and none ignores a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_cli import run

from tacita import compiled
from tacita.cli.app import COMMANDS
from tacita.cli.options import read_settings
from tacita.cli.service import https
from tacita.errors import InputError

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
SERVE = ["serve", "--https", "127.0.0.1:0", "--data", "served", "--new-certificate", "tls"]


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices, of which the second is a GPU."""
    rows = [("A card", "Its maker", "A platform", 8, 2, True, gpu) for gpu in (False, True)]
    monkeypatch.setattr(compiled.native, "opencl_devices", lambda: (rows, ""))


def test_a_command_that_takes_threads_reads_the_device() -> None:
    taken = {name: getattr(each, "taken", {}).get("run", ()) for _, name, each, _ in COMMANDS}
    assert {name for name, keys in taken.items() if "threads" in keys and "device" not in keys} == set()
    assert {"classify", "embed", "answer", "generate", "accuracy", "serve", "evaluate"} <= {
        name for name, keys in taken.items() if "device" in keys
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["classify", "a text", "--backend", "sim"], "--backend"),
        (["embed", "a text", "--connect", "127.0.0.1:1"], "--connect"),
        (["classify", "a text", "--ray", "local"], "--ray"),
        (["generate", "a text"], "--backend plain"),
        (["generate", "a text", "--connect", "127.0.0.1:1"], "--connect"),
        (["accuracy", "--data", "none.tsv"], "--backend sim"),
        (["gateway"], "a gateway"),
        (["serve", "--insecure-plain-tcp"], "a port"),
        ([*SERVE, "--schemes", "bumblebee"], "bumblebee"),
    ],
)
@pytest.mark.usefixtures("cards")
def test_a_device_is_refused_where_nothing_is_evaluated(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tacita.toml").write_text("[run]\ndevice = 'opencl:1'\n")
    status, _, err = run(*words)
    assert status == 2
    assert f"--device opencl:1: it evaluates ciphertexts of this process alone, and {why} has none" in err
    assert not list(tmp_path.glob("served/*"))


@pytest.mark.usefixtures("cards")
def test_a_service_has_one_worker_on_a_device() -> None:
    def device(name: str, **more: Any) -> str:
        service = {"https": "127.0.0.1:0", "data": ".", "schemes": ("thor", "bumblebee"), **more}
        return https.device_of(read_settings(line={"run": {"device": name}, "service": service}))

    assert [device(name) for name in ("cpu", "auto", "opencl")] == ["cpu", "opencl:1", "opencl:0"]
    assert device("auto", schemes=("bumblebee",)) == device("cpu", schemes=("thor", "arion")) == "cpu"
    with pytest.raises(InputError, match="device auto for 2 models and schemes on ciphertexts"):
        device("auto", schemes=("thor", "arion"))
    with pytest.raises(InputError, match="device opencl:1 for 2 models"):
        device("opencl:1", models=("a", "b"))
    with pytest.raises(InputError, match="and --ray has none"):
        settings = {"run": {"device": "opencl"}, "ray": {"address": "local"}}
        https.device_of(read_settings(line={**settings, "service": {"https": "h:1", "data": "."}}))
