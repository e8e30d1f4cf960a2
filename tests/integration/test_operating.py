"""What an operator does with a server that has clients: back it up while it serves, restore it elsewhere."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from test_cli import run
from test_service import LONGER, TOY, Caller

from tacita.cli.ask.schemas import schema_of
from tacita.cli.service.started import started
from tacita.client.connect import connect
from tacita.errors import InputError
from tacita.plans import wire

pytestmark = pytest.mark.native


def tacita(*words: object) -> str:
    """Runs a command as an operator does; returns what it wrote."""
    status, out, err = run(*map(str, words))
    assert status == 0, err
    return out


def test_a_restored_server_answers_the_same_clients_with_their_keys(tmp_path: Path) -> None:
    """Token, keys, plan, certificate and signing key stay; a request that ran at the moment of the backup is
    answered again, as it would have been."""
    first, copy, second = tmp_path / "first", tmp_path / "copy", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with started(first, "--schemes", "thor", settings=LONGER) as server:
        caller = Caller(server, server.token("clinic"), tmp_path / "clinic")
        client = caller.prepare()
        undisturbed = caller.answer(caller.post(client))
        id = caller.post(client)
        next(status for status in caller.events(id) if status.state is wire.State.running)
        words = ["--data", server.data, "--new-certificate", server.certificate.parent]
        report = tmp_path / "report.json"
        out = tacita("backup", copy, *words, "--json", report)
        assert "1 key set, 2 requests" in out and json.loads(report.read_text())["left_out"] == 0
        jsonschema.validate(json.loads(report.read_text()), schema_of("backup"))
        models = caller.get("/v1/models").json()
    shutil.copy(server.certificate, tmp_path / "trusted.pem")
    shutil.rmtree(first)
    tacita("restore", copy, "--data", second / "data", "--new-certificate", second / "tls")
    with started(second, "--schemes", "thor", settings=LONGER) as again:
        again = replace(again, certificate=tmp_path / "trusted.pem")
        caller = Caller(again, caller.token, caller.work)
        assert caller.get("/v1/models").json() == models
        assert caller.answer(id) == undisturbed
        client.work.response.write_bytes(caller.answer(caller.post(client)))
        assert client.decrypt().label == "positive"


MODELS = """
[models.reviews]
model = "sst2-tiny"
schemes = "thor,bumblebee"

[models.writer]
model = "austen-tiny"
schemes = "bumblebee"
"""


def test_one_server_offers_several_models_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "tacita.toml").write_text(MODELS)
    with started(tmp_path, "--config", str(tmp_path / "tacita.toml"), settings=TOY) as server:
        assert server.greeting[0].startswith("memory: ") and "for reviews by thor; " in server.greeting[0]
        how = {"trust": server.certificate, "data": tmp_path / "client", "allow_insecure": True}
        with connect(server.url, token=server.token("clinic"), **how) as service:  # type: ignore[arg-type]
            assert [each.name for each in service.models().models] == ["reviews", "writer"]
            for scheme in ("thor", "bumblebee"):
                answer = service.classify("a waste of time", model="reviews", scheme=scheme)
                assert answer.label == "negative"
            assert service.generate("It is a truth", model="writer", max_tokens=1)
            with pytest.raises(InputError, match="no model 'review'"):
                service.classify("a waste of time", model="review")
