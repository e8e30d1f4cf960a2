"""Documents by a cross-encoder: in Python, on the command line, and of what they are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

import tacita
from tacita.api import reference_logits
from tacita.client.offers import choose
from tacita.errors import InputError
from tacita.plans.wire import Model, Models, Offer
from tacita.texts.answer import Answer, withhold_failed
from tacita.texts.ranking import rank

QUERY, DOCUMENTS = "a fine film", ["the plot is dull", "a very fine film", "never boring", "bad"]
TOY: dict[str, Any] = {"tokens": 16, "preset": "insecure_toy_n10"}
MODEL = make_random_checkpoint(layers=1, labels=("relevance",))


@pytest.mark.parametrize("how", [{"backend": "sim"}, {"backend": "plain", "scheme": "bumblebee"}])
def test_the_order_is_that_of_the_float_model(how: dict[str, Any]) -> None:
    ranking = tacita.rerank(QUERY, DOCUMENTS, model=MODEL, **TOY, **how)
    plan = tacita.plan(MODEL, scheme="thor", texts=[(QUERY, one) for one in DOCUMENTS], **TOY)
    floats = [float(reference_logits(plan, MODEL, (QUERY, one))[0]) for one in DOCUMENTS]
    assert [each.index for each in ranking.ranks] == list(np.argsort(-np.array(floats)))
    for each in ranking.ranks:
        assert each.document == DOCUMENTS[each.index]
        assert each.score == pytest.approx(1.0 / (1.0 + np.exp(-floats[each.index])), abs=0.02)
    assert ranking.privacy == f"none: {how['backend']} encrypts nothing"
    assert tacita.rerank(QUERY, DOCUMENTS, model=MODEL, top_n=2, **TOY, **how).ranks == ranking.best(2)


@pytest.mark.native
@pytest.mark.parametrize("scheme", ["thor", "bumblebee"])
def test_pairs_that_are_encrypted_rank_alike(scheme: str) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    how: Any = {**TOY, "scheme": scheme, "model": MODEL}
    clear = tacita.rerank(QUERY, DOCUMENTS[:2], backend="plain", **how)
    secret = tacita.rerank(QUERY, DOCUMENTS[:2], backend="ckks", allow_insecure=True, **how)
    assert [each.index for each in secret.ranks] == [each.index for each in clear.ranks]
    for one, other in zip(secret.ranks, clear.ranks, strict=True):
        assert one.score == pytest.approx(other.score, abs=0.02)
    assert secret.privacy and not secret.privacy.startswith("none")


@pytest.mark.native
def test_the_command_asks_a_server_by_its_port(tmp_path: Path) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    file, report = tmp_path / "pairs.tsv", tmp_path / "r.json"
    file.write_text("\n".join(["text\ttext2", *(f"{QUERY}\t{one}" for one in DOCUMENTS)]))
    model = ["--model", str(write_folder(MODEL, tmp_path / "m")), "--tokens", "16", "--texts", str(file)]
    status, out, err = run(
        "rerank", QUERY, *DOCUMENTS[:2], *model, "--scheme", "bumblebee", "--json", str(report)
    )
    assert status == 0, err
    assert json.loads(report.read_text())["encrypted"] is True and "both parties run here" in out


def test_a_pair_that_failed_its_checks_is_last_and_has_no_score() -> None:
    failed = withhold_failed(Answer(None, (9.0,), ("beyond its bound",), trusted=False))
    ranking = rank(["a", "b", "c"], [failed, Answer(None, (-1.0,), ()), Answer(None, (2.0,), ())])
    assert [(each.document, each.score is None) for each in ranking.ranks] == [
        ("c", False),
        ("b", False),
        ("a", True),
    ]
    assert ranking.ranks[2].to_json()["logits"] is None
    assert "its checks failed" in repr(rank(["a"], [failed]))


def test_the_command_sorts_documents(tmp_path: Path) -> None:
    folder, file, report = write_folder(MODEL, tmp_path / "m"), tmp_path / "docs.txt", tmp_path / "r.json"
    file.write_text("\n".join(DOCUMENTS))
    toy = ["--model", str(folder), "--tokens", "16", "--preset", "insecure_toy_n10", "--backend", "plain"]
    toy += ["--scheme", "bumblebee"]
    status, out, err = run("rerank", QUERY, *DOCUMENTS, "--top", "3", *toy, "--json", str(report))
    assert status == 0, err
    logits = [result["logits"][0] for result in json.loads(report.read_text())["results"]]
    best = [DOCUMENTS[i] for i in np.argsort(-np.array(logits))]
    table = out[out.index("score") :]
    assert [table.index(f" {one}") for one in best[:3]] == sorted(table.index(f" {one}") for one in best[:3])
    assert best[3] not in table
    status, again, err = run("rerank", QUERY, "--file", str(file), "--top", "3", *toy)
    assert status == 0, err
    assert again[again.index("score") :].split()[:12] == table.split()[:12]


def test_models_of_another_kind_and_no_documents_are_refused() -> None:
    two = make_random_checkpoint(layers=1)
    with pytest.raises(InputError, match=r"rerank: the model answers with a label, not one number") as caught:
        tacita.rerank(QUERY, DOCUMENTS, model=two, backend="plain", **TOY)
    assert "tacita classify" in caught.value.hint
    for documents in ([], "a fine film"):
        with pytest.raises(InputError, match="no list of documents"):
            tacita.rerank(QUERY, documents, model=MODEL, backend="plain", **TOY)
    status, _, err = run("rerank", QUERY)
    assert status == 2 and "rerank: give texts or a --file of them" in err


def test_a_service_is_asked_for_its_one_cross_encoder() -> None:
    offer = Offer(scheme="bumblebee", plan="0" * 64, connected=True, batch=1, tokens=16, seconds=1.0)
    grader = Model(name="grader", task="text", problem="regression", labels=("LABEL_0",), offers=(offer,))
    other = grader.model_copy(update={"name": "other", "labels": ("a", "b")})
    models = Models(release="0", signer="0" * 64, models=(grader, other))
    assert choose(models, ["rerank"], None, None)[0].name == "grader"
    with pytest.raises(InputError, match="answers with a label, not one number for a pair"):
        choose(models, ["rerank"], "other", None)
