"""Pairs of texts in every scheme, by the default model's tokenizer: as the float model answers them, their
lengths hidden, and from calibration to files of two columns.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, random_tensors, write_folder
from test_cli import run

import tacita
from bench.options import read_examples
from tacita import api
from tacita.checkpoint import Checkpoint, from_tensors
from tacita.checkpoint.reference import reference
from tacita.cli.columns import Columns, columns_of, read_pairs, texts_of
from tacita.errors import InputError
from tacita.models.bert import BertConfig
from tacita.planning.calibrate.calibrate import calibrate
from tacita.planning.calibrate.walk import neighbours
from tacita.plans import envelope
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.scheme import NAMES
from tacita.texts.embed import Text, embed, tokenize
from tacita.two_party.plan.plan import TwoPartyPlan

SENTENCES = ["a fine film", "the plot is dull", "never boring , very good", "it ended too soon", "bad"]
PAIRS: list[Text] = [
    ("a fine film", "a good film"),
    ("is it dull ?", "the plot is dull"),
    ("bad", "very good"),
]
TOY: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n10", "texts": neighbours(SENTENCES)}
LABELS = ("entailment", "not_entailment")


@pytest.fixture(scope="module")
def model() -> Checkpoint:
    """Random weights, and the default model's vocabulary: what a pair's second text is, its type tells."""
    tokenizer = tacita.load().tokenizer
    assert tokenizer is not None
    vocab = tokenizer.get_vocab_size(with_added_tokens=True)
    config = BertConfig(1, 16, 2, 32, vocab, 64, 2, "gelu", "pooler", 1e-12, LABELS)
    return from_tensors(config, random_tensors(config, 5), tokenizer, name="pairs")


def float_logits(model: Checkpoint, text: Text) -> np.ndarray:
    hidden, mask = embed(model, text, 16)
    return reference(model, hidden, mask).logits


def test_token_types_matter(model: Checkpoint) -> None:
    ids, types = tokenize(model, PAIRS[0])
    assert (sum(types), types[0], types[-1]) == (4, 0, 1)
    hidden, mask = embed(model, PAIRS[0], 16)
    second = model.tensors["embeddings.token_type_embeddings.weight"]
    assert np.abs(second[0] - second[1]).max() > 0.1
    joined, _ = embed(model, "a fine film [SEP] a good film", 16)  # the same ids, all of type 0
    assert tokenize(model, "a fine film [SEP] a good film")[0] == ids
    assert np.abs(reference(model, hidden, mask).logits - reference(model, joined, mask).logits).max() > 0.05


@pytest.mark.parametrize("scheme", NAMES)
def test_pairs_have_the_float_models_logits(scheme: str, model: Checkpoint) -> None:
    plan = replace(api.plan(model, scheme=scheme, **TOY), decimals=6)  # a toy ring's would hide the error
    groups = [PAIRS[at : at + plan.batch] for at in range(0, len(PAIRS), plan.batch)]
    for group in groups:
        answers = api.classify_batch_locally(plan, model, group, backend="sim")
        for text, answer in zip(group, answers, strict=True):
            assert np.abs(answer.vector - float_logits(model, text)).max() < 0.01, (scheme, text)
            assert not answer.warnings


def test_lengths_of_pairs_in_a_batch_are_hidden(model: Checkpoint, tmp_path: Path) -> None:
    """In size and public head of the request, and of the response that the server makes of it."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    plan = api.plan(model, scheme="arion", **TOY | {"preset": "insecure_toy_n9"})
    assert isinstance(plan, Plan)
    client = api.Client(api.public_of(plan, model), tmp_path, allow_insecure=True)
    client.keygen()
    server, files, heads = api.Server(plan, model, tmp_path, allow_insecure=True), Workdir(tmp_path), set()
    sizes = set()
    for group in (PAIRS, PAIRS[:1], [PAIRS[1], "bad", ("a", "b")], [("bad", "bad")] * plan.batch):
        client.encrypt_batch(group)
        sizes.add(files.request.stat().st_size)
        heads.add(public_head(files.request))
    assert len(sizes) == len(heads) == 1
    answers = set()
    for group in (PAIRS, [("bad", "bad")]):
        client.encrypt_batch(group)
        server.evaluate()
        answers.add((files.response.stat().st_size, public_head(files.response)))
    assert len(answers) == 1
    counts = {
        tuple((name, len(vectors)) for name, vectors in plan.layout.request.pack(samples).items())
        for samples in ([embed(model, text, 16)] for text in PAIRS)
    }
    assert len(counts) == 1


def public_head(path: Path) -> bytes:
    """What a file of ciphertexts says in the clear, but for the hash of the request that a response names."""
    data = path.read_bytes()
    _, _, length = envelope.PREFIX.unpack(data[: envelope.PREFIX.size])
    return re.sub(rb'"after":"[0-9a-f]{64}",', b"", data[: envelope.PREFIX.size + length])


@pytest.mark.native
def test_two_parties_send_as_much_for_any_pair(model: Checkpoint) -> None:
    """Bytes both ways, once keys and correlated transfers are there."""
    shares = pytest.importorskip("test_two_party_shares")
    plan = api.plan(model, scheme="bumblebee", tokens=16, texts=neighbours(SENTENCES))
    assert isinstance(plan, TwoPartyPlan)
    with shares.prepared(4 * round(plan.program.cost().transfers)) as session:

        def sent(text: Text) -> int:
            hidden, mask = embed(model, text, plan.tokens)
            before = session[0].cost["bytes_sent"] + session[0].cost["bytes_received"]

            def work(party: Any) -> Any:
                client = party is session[0]
                mine = {"mask": mask} if client else {"model": model}
                return shares.run_plan(plan, party, hidden, **mine)

            shares.both(session, work)
            return session[0].cost["bytes_sent"] + session[0].cost["bytes_received"] - before

        sent(PAIRS[0])
        assert sent(("bad", "bad")) == sent(("is it dull ?", "never boring , very good")) > 0


def test_a_model_asked_about_pairs_is_calibrated_on_pairs(model: Checkpoint) -> None:
    """A second text has a type of its own, whose embedding no single text shows."""
    request = api.PlanRequest(tokens=16, texts=SENTENCES).calibrated_for([PAIRS[0]])
    assert request.texts == tuple(neighbours(SENTENCES))
    assert request.calibrated_for(["alone"]) is request
    given = api.PlanRequest(tokens=16, texts=PAIRS)
    assert given.calibrated_for(PAIRS) == given
    shipped = api.PlanRequest().calibrated_for(PAIRS).texts
    assert shipped is not None and all(isinstance(text, tuple) for text in shipped)


def test_calibration_cuts_the_longer_text_of_a_pair(model: Checkpoint) -> None:
    long = ("a fine film", "very " * 30 + "good")
    calibrate(model, 16, [long])
    with pytest.raises(InputError, match="tokens"):
        embed(model, long, 16)


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("sentence\tlabel", Columns((0,), 1)),
        ("anything\tstars", Columns((0,), 1)),
        ("text\ttext2\tlabel", Columns((0, 1), 2)),
        ("label\tsentence1\tsentence2", Columns((1, 2), 0)),
        ("idx\tquestion\tsentence\tlabel", Columns((1, 2), 3)),
        ("question\tcontext", Columns((0, 1), None)),
    ],
)
def test_a_header_says_which_columns_are_texts(header: str, columns: Columns) -> None:
    assert columns_of(header) == columns


def test_a_header_with_three_texts_is_refused() -> None:
    with pytest.raises(InputError, match="3 of them hold texts"):
        columns_of("one\ttwo\tthree\tlabel")


def test_files_of_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\tlabel\na\tb\t1\n\nc\td\t0\n")
    assert read_examples(path) == [(("a", "b"), 1), (("c", "d"), 0)]
    assert texts_of(path.read_text().split("\n")) == [("a", "b"), ("c", "d")]
    path.write_text("one\ttwo\nlonely\nthree\tfour\n")
    lines = read_pairs(path)  # no name of a column in the first line: a pair
    assert [line.text for line in lines] == [("one", "two"), "", ("three", "four")]
    assert (lines[1].number, lines[1].problem) == (2, "not two texts with a tab between")
    path.write_text("text\ttext2\n1\t2\n")
    assert [line.text for line in read_pairs(path)] == [("1", "2")]


@pytest.fixture(scope="module")
def folder(model: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(model, tmp_path_factory.mktemp("pairs"))


def test_commands_take_pairs(folder: Path, tmp_path: Path) -> None:
    texts, report = tmp_path / "texts.txt", tmp_path / "report.json"
    texts.write_text("\n".join(SENTENCES))
    toy = ["--preset", "insecure_toy_n10", "--tokens", "16", "--model", str(folder), "--texts", str(texts)]
    small = [*toy, "--backend", "plain", "--json", str(report)]
    status, out, err = run("classify", "--pair", "a fine film", "a good film", "bad", "very good", *small)
    assert status == 0, err
    found = json.loads(report.read_text())
    assert [row["text"] for row in found["results"]] == [["a fine film", "a good film"], ["bad", "very good"]]
    assert found["max_abs_error"] < 0.05
    assert "a fine film |" in out
    status, _, err = run("classify", "--pair", "a fine film", *small)
    assert status == 2 and "two texts for each pair" in err
    data = tmp_path / "pairs.tsv"
    data.write_text("sentence1\tsentence2\tlabel\na fine film\ta good film\t1\nbad\tvery good\t0\n")
    status, _, err = run("classify", "--pair", "--file", str(data), *small)
    assert status == 0, err
    status, _, err = run("accuracy", "--data", str(data), *small, "--threads", "1")
    assert status == 0, err
    assert json.loads(report.read_text())["sentences"] == 2


def test_a_regression_is_measured_by_its_correlation(model: Checkpoint, tmp_path: Path) -> None:
    config = replace(model.config, labels=("likeness",), problem="regression")  # type: ignore[type-var]
    changed = from_tensors(config, random_tensors(config, 5), model.tokenizer, name="likeness")
    folder = write_folder(changed, tmp_path / "model")
    stated = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**stated, "problem_type": "regression"}))
    data, report = tmp_path / "pairs.tsv", tmp_path / "report.json"
    rows = ["a fine film\ta good film\t4.5", "bad\tvery good\t0.25", "bad\tbad\t5", "bad\tbad\tnan"]
    data.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    small = ["--scheme", "bumblebee", "--tokens", "16", "--backend", "plain", "--threads", "1"]
    status, out, err = run(
        "accuracy", "--data", str(data), "--model", str(folder), *small, "--json", str(report)
    )
    assert status == 1 and "pairs.tsv:5: not two texts" in err
    found = json.loads(report.read_text())
    assert found["sentences"] == 3 and "accuracy" not in found
    assert -1.0 <= found["correlation"] <= 1.0
    assert found["correlation"] == pytest.approx(found["reference_correlation"], abs=0.02)
    assert found["correlation_with_reference"] > 0.99 and "correlation" in out


def test_accuracy_refuses_what_no_label_number_is_about(tmp_path: Path) -> None:
    data = tmp_path / "data.tsv"
    data.write_text("sentence\tlabel\nbad\t0\n")
    encoder = make_random_checkpoint(layers=1, labels=(), pooling="mean")
    folder = write_folder(encoder, tmp_path / "encoder")
    status, _, err = run("accuracy", "--data", str(data), "--model", str(folder), "--tokens", "16")
    assert status == 2 and "the model answers with a vector" in err


@pytest.mark.native
def test_the_steps_through_files_take_a_pair(folder: Path, model: Checkpoint, tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    calibration = tmp_path / "calibration.tsv"
    calibration.write_text("text\ttext2\n" + "\n".join("\t".join(pair) for pair in neighbours(SENTENCES)))
    work = ["--work", str(tmp_path / "work")]
    public = ["--public", str(tmp_path / "public"), *work, "--allow-insecure"]
    toy = ["--preset", "insecure_toy_n10", "--tokens", "16", "--texts", str(calibration)]
    report, texts = tmp_path / "report.json", ["--text", "a fine film", "--text", "a good film"]
    for words in (
        ["publish", "--model", str(folder), "--output", str(tmp_path / "public"), *work, *toy],
        ["keygen", *public],
        ["encrypt", "--pair", "a fine film", "a good film", *public],
        ["evaluate", "--model", str(folder), *work, "--allow-insecure"],
        ["decrypt", "--pair", *texts, *public, "--json", str(report)],
    ):
        status, _, err = run(*words)
        assert status == 0, err
    found = json.loads(report.read_text())
    assert np.abs(np.array(found["logits"]) - float_logits(model, PAIRS[0])).max() < 0.1
    assert {score["label"] for score in found["scores"]} == set(LABELS)
    for words, problem in (
        (["encrypt", "a", "b"], "2 texts"),
        (["encrypt", "--pair", "a", "b", "c", "d"], "4 texts"),
        (["decrypt", "--text", "a", "--file", "b"], "--text and --file"),
    ):
        status, _, err = run(*words, *public)
        assert status == 2 and problem in err
