"""`tacita embed`, `search`, `tag`, `answer`, `fill` and `tacita.pipeline`: options, files, refusals."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from safetensors.numpy import save
from test_cli import run

import tacita
from tacita import api
from tacita.checkpoint.documents import with_documents
from tacita.checkpoint.reference import reference
from tacita.cli.ask.tasks import read_context, write_vectors
from tacita.cli.columns import Line
from tacita.cli.console import UNTRUSTED
from tacita.cli.report import Outcome, Result
from tacita.errors import FileError, InputError
from tacita.texts.answer import withhold_failed
from tacita.texts.embed import embed
from tacita.texts.vectors import Embedding, Index, Search, search

DOCUMENTS = ["a fine film", "the plot is dull", "never boring , very good", "bad film", "is it a good plot"]
TOY: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n10", "texts": DOCUMENTS, "backend": "plain"}
ENCODER = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True, seed=7)
CLASSIFIER = make_random_checkpoint(layers=1)
FLOAT: dict[str, Any] = {**TOY, "scheme": "bumblebee"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(ENCODER, tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(CLASSIFIER, tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "docs.txt"
    path.write_text("\n".join(DOCUMENTS))
    return path


def toy(model: Path, documents: Path) -> list[str]:
    small = ["--preset", "insecure_toy_n10", "--tokens", "16", "--backend", "plain", "--scheme", "bumblebee"]
    return [*small, "--model", str(model), "--texts", str(documents)]


FAILED = Embedding(None, (9.0,), ("beyond its bound",), trusted=False)


def test_an_index_is_made_and_searched(encoder: Path, documents: Path, tmp_path: Path) -> None:
    index, vectors = tmp_path / "docs.index", tmp_path / "docs.npy"
    made = ["--file", str(documents), "--index", str(index), "--output", str(vectors)]
    status, out, err = run("embed", *made, *toy(encoder, documents))
    assert status == 0, err
    assert "5 documents" in out
    kept = Index.load(index)
    assert kept.texts == tuple(DOCUMENTS)
    assert np.array_equal(kept.vectors, np.load(vectors))
    assert np.linalg.norm(kept.vectors, axis=1) == pytest.approx(1.0, abs=0.02)
    report = tmp_path / "report.json"
    words = ["search", DOCUMENTS[2], "--index", str(index), "--top", "2", "--json", str(report)]
    status, out, err = run(*words, *toy(encoder, documents))
    assert status == 0, err
    assert out.index(DOCUMENTS[2], out.index("score")) > 0
    figures = json.loads(report.read_text())
    nearest = [each.to_json() for each in kept.nearest(np.array(figures["logits"]), 2)]
    assert figures["results"][0]["scores"] == nearest, "the documents that the screen shows"
    assert figures["label"] == nearest[0]["label"] == DOCUMENTS[2]


def test_vectors_are_written_as_json_too(encoder: Path, documents: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    status, _, err = run("embed", DOCUMENTS[0], "--output", str(path), *toy(encoder, documents))
    assert status == 0, err
    assert np.shape(json.loads(path.read_text())) == (1, 16)
    status, _, err = run("embed", DOCUMENTS[0], "--output", "one.csv", *toy(encoder, documents))
    assert status == 2 and "neither .npy nor .json" in err


def test_an_index_of_another_model_is_refused_before_a_plan_is_made(
    encoder: Path, documents: Path, tmp_path: Path
) -> None:
    index = tmp_path / "docs.index"
    Index("other", "00" * 32, ("a",), np.ones((1, 16))).save(index)
    status, _, err = run("search", "film", "--index", str(index), *toy(encoder, documents))
    assert status == 2 and "the index is of model other" in err


def test_indexes_are_compared_by_hash_or_where_one_is_a_servers_by_name() -> None:
    here, served = Index("m", "aa", ("x",), np.ones((1, 2))), Index("m", "", ("x",), np.ones((1, 2)))
    here.require("renamed", "aa")
    here.require("m", "")
    served.require("m", "bb")
    for index, name, sha256 in ((here, "m", "bb"), (served, "n", "aa")):
        with pytest.raises(InputError, match="the index is of model m"):
            index.require(name, sha256)
    with pytest.raises(InputError, match="a query of 3 numbers"):
        here.nearest(np.ones(3), 1)


def test_damaged_indexes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "docs.index"
    good = Index("m", "aa", ("x", "y"), np.array([[1.0, 0.5], [0.0, 2.0]]))
    good.save(path)
    data = path.read_bytes()
    assert np.array_equal(Index.load(path).vectors, good.vectors)
    damages = (
        data[:-9],
        b"",
        data.replace(b'"version": 1', b'"version": 9'),
        data.replace(b'"x", "y"', b'"x", 1234'[:8]),
        data.replace(b'"x", "y"', b'"x;  y" '),
        data.replace(np.float64(0.5).tobytes(), np.float64("nan").tobytes()),
        save({"vectors": good.vectors, "head": np.frombuffer(b"[" * 100_000, np.uint8)}),
    )
    for damaged in damages:
        assert damaged != data
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"docs\.index"):
            Index.load(path)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Documents as a float model embeds them."""
    path = tmp_path / "docs.index"
    vectors = np.stack([answer.vector for answer in tacita.embed(DOCUMENTS, model=ENCODER, **FLOAT)])
    Index("encoder0", "", tuple(DOCUMENTS), vectors).save(path)
    return path


@pytest.mark.parametrize("scheme", ["thor", "arion", "bumblebee"])
def test_a_servers_documents_are_a_map_behind_its_model(scheme: str, index: Path) -> None:
    """The nearest document is the float model's; scores are cosines times the query's length."""
    found = with_documents(replace(ENCODER, name="encoder0"), Index.load(index))
    assert (found.config.labels, found.config.problem) == (("0", "1", "2", "3", "4"), "search")
    how = {"tokens": 16, "preset": "insecure_toy_n10", "texts": DOCUMENTS, "scheme": scheme}
    plan = replace(api.plan(found, **how), decimals=6)  # a toy ring's would hide the error
    for number, text in enumerate(DOCUMENTS):
        answer = api.classify_locally(plan, found, text, backend="sim")
        assert isinstance(answer, Search) and answer.label == str(number)
        vector = reference(ENCODER, *embed(ENCODER, text, 16)).trace["answer"]
        nearest = Index.load(index).nearest(vector, 5)
        wanted = {one.label: one.score * np.linalg.norm(vector) for one in nearest}
        found_scores = {DOCUMENTS[int(one.label)]: one.score for one in answer.scores}
        assert found_scores == pytest.approx(wanted, abs=0.05)


def test_documents_of_another_model_and_of_a_classifier_are_refused(index: Path) -> None:
    with pytest.raises(InputError, match="the index is of model encoder0"):
        with_documents(ENCODER, Index.load(index))
    with pytest.raises(InputError, match="embed: the model answers with a label"):
        with_documents(CLASSIFIER, Index.load(index))


def test_a_servers_documents_are_searched_by_number_or_with_their_file_by_text(
    encoder: Path, documents: Path, index: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    words = ["search", DOCUMENTS[3], "--documents", str(index), "--top", "1", "--json", str(report)]
    status, out, err = run(*words, *toy(encoder, documents))
    assert status == 0, err
    assert json.loads(report.read_text())["label"] == "3"
    assert DOCUMENTS[3] in out[out.index("score") :]
    for given in ([*words, "--index", str(index)], words[:2]):
        status, _, err = run(*given, *toy(encoder, documents))
        assert status == 2 and "either --index or --documents" in err


def test_documents_and_queries_that_failed_their_checks_are_left_out_aloud(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query without an answer has no table of documents, an index says what it lacks."""
    scores = replace(search(("0", "1"), (0.5, 0.1), ("beyond its bound",)), trusted=False)
    for verb, answers, more in (
        ("embed", [Embedding(None, (0.6, 0.8), ("coarse",)), FAILED], ["--index", str(tmp_path / "new")]),
        ("search", [withhold_failed(scores)], ["--documents", str(index)]),
    ):
        results = [Result(Line(n, "text"), each, 1, {}) for n, each in enumerate(answers)]
        outcome = Outcome(results, "model", "", complete=True)
        monkeypatch.setattr(sys.modules["tacita.cli.ask.tasks"], "ask", lambda *_, said=outcome: said)
        status, out, _ = run(verb, *["text"] * len(answers), *more)
        assert status == UNTRUSTED and ("1 document, 1 left out: checks failed" in out) is (verb == "embed")
        assert "--top" not in out and "score" not in out


@pytest.mark.parametrize("verb", ["embed", "tag", "answer", "fill"])
def test_a_model_of_another_kind_is_refused_with_the_command_to_use(
    verb: str, classifier: Path, documents: Path
) -> None:
    words = [verb, "a fine film", *(["--context", "the plot"] if verb == "answer" else [])]
    status, _, err = run(*words, *toy(classifier, documents))
    assert status == 2
    assert f"{verb}: the model answers with a label" in err
    assert "tacita classify" in err


def test_a_context_is_a_text_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "context.txt"
    path.write_text(" Lindgren wrote it.\n")
    assert read_context(str(path)) == "Lindgren wrote it."
    assert read_context("Lindgren wrote it.") == "Lindgren wrote it."
    assert read_context("long " * 1000) == "long " * 1000  # no name of a file is that long
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_context(str(path))
    path.write_text("\n")
    with pytest.raises(InputError, match="empty"):
        read_context(str(path))


def test_text_classification_answers_as_transformers_does() -> None:
    pipe = tacita.pipeline("text-classification", model=CLASSIFIER, **TOY)
    answer = tacita.classify("a fine film", model=CLASSIFIER, **TOY)
    best = {"label": answer.label, "score": pytest.approx(answer.to_json()["scores"][0]["score"])}
    assert pipe("a fine film") == [best]
    assert pipe(["a fine film", "a fine film"]) == [best, best]
    both = pipe("a fine film", top_k=None)
    assert (both[0]["label"], len(both)) == (answer.label, 2)
    assert pipe(["a fine film"], top_k=None) == [both]
    pair = pipe({"text": "a fine film", "text_pair": "bad film"})
    assert pair == pipe(tacita.Pair("a fine film", "bad film")) and set(pair[0]) == {"label", "score"}


def test_in_place_of_an_answer_that_failed_its_checks_stands_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = [tacita.embed("a fine film", model=ENCODER, **TOY), withhold_failed(FAILED)]
    pipe = tacita.pipeline("feature-extraction", model=ENCODER, **TOY)
    monkeypatch.setattr(sys.modules["tacita.pipelines"], "ask_all", lambda *_: found)
    assert pipe(["a fine film", "bad"]) == [[list(found[0].logits)], None]
    pair = {"source_sentence": "a fine film", "sentences": ["bad"]}
    assert tacita.pipeline("sentence-similarity", model=ENCODER, **TOY)(pair) == [None]
    results = [Result(Line(n, "text"), each, 1, {}) for n, each in enumerate(found)]
    outcome = Outcome(results, "model", "", complete=True)
    write_vectors(tmp_path / "vectors.npy", outcome)
    write_vectors(tmp_path / "vectors.json", outcome)
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors[0].tolist() == list(found[0].logits) and np.isnan(vectors[1]).all()
    assert json.loads((tmp_path / "vectors.json").read_text()) == [list(found[0].logits), None]


def test_feature_extraction_gives_the_pooled_row() -> None:
    pipe = tacita.pipeline("feature-extraction", model=ENCODER, **TOY)
    (row,) = pipe("a fine film")
    assert row == list(tacita.embed("a fine film", model=ENCODER, **TOY).logits)


def test_unknown_tasks_inputs_and_models_are_refused() -> None:
    with pytest.raises(InputError, match="no task 'translation'") as refused:
        tacita.pipeline("translation", model=CLASSIFIER)
    assert "token-classification" in refused.value.hint
    with pytest.raises(InputError, match="answers with a label"):
        tacita.pipeline("question-answering", model=CLASSIFIER)
    pipe = tacita.pipeline("text-classification", model=CLASSIFIER, **TOY)
    for strange in (3, {"sentence": "a"}, [("a", "b", "c")]):
        with pytest.raises(InputError, match="an input of type"):
            pipe(strange)
    with pytest.raises(TypeError):
        pipe("a fine film", pad=True)
