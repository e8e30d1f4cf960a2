"""`tacita serve --documents` and `tacita search --connect` as two processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from random_checkpoint import make_random_checkpoint, write_folder

from tacita.cli.service.started import started
from tacita.client.connect import connect
from tacita.texts.vectors import Search

processes = pytest.importorskip("test_two_party_processes")
pytestmark = pytest.mark.native
TEXTS, own_cache = processes.TEXTS, processes.own_cache


def test_a_servers_documents_are_searched_by_a_client_that_learns_the_nearest(tmp_path: Path) -> None:
    """A search reads a text file, and shows the titles that the server publishes."""
    encoder = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True, seed=7)
    model, docs, report = write_folder(encoder, tmp_path / "encoder"), tmp_path / "docs.txt", tmp_path / "r"
    docs.write_text("\n".join([*TEXTS, "is it a good plot", "a dull film"]))
    options = ["--documents", str(docs), "--insecure-plain-tcp"]
    plan = {"plan": {"nearest": 2, "titles": True}}
    with processes.serving(tmp_path, *options, given_model=model, settings=plan) as served:
        words = [TEXTS[1], "--top", "1", "--json", str(report)]
        done = processes.ask("search", served.target, *words, insecure_plain_tcp=True)
    assert done.returncode == 0 and TEXTS[1] in done.stdout, done.stderr + served.output
    (found,) = json.loads(report.read_text())["results"]
    assert found["label"] == TEXTS[1] and len(found["scores"]) == len(found["logits"]) == 2


def test_a_service_searches_its_documents_by_two_parties(tmp_path: Path) -> None:
    encoder = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True, seed=7)
    docs, texts = tmp_path / "docs.txt", tmp_path / "texts.txt"
    docs.write_text("\n".join([*TEXTS, "is it a good plot", "a dull film"]))
    texts.write_text("\n".join(TEXTS))
    model = ["--model", str(write_folder(encoder, tmp_path / "encoder")), "--texts", str(texts)]
    options = [*model, "--schemes", "bumblebee", "--documents", str(docs), "--tokens", "16"]
    plan = {"plan": {"nearest": 2, "titles": True}, "service": {"drain": 0}}
    with started(tmp_path, *options, settings=plan) as server:
        trust = {"token": server.token("clinic"), "trust": server.certificate}
        with connect(server.url, data=tmp_path / "own", **trust) as service:
            answer = service.search(TEXTS[1])
    assert isinstance(answer, Search) and answer.best(1)[0].label == TEXTS[1] and len(answer.scores) == 2
