"""`tacita choose`: what fits which needs, and what it says where nothing of ours does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from tacita.plans.scheme import PROMISES, Needs


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_folder(make_random_checkpoint(layers=1), tmp_path_factory.mktemp("model") / "m")
    (folder / "texts.txt").write_text("a fine film\nthe plot is dull\nbad\n")
    return folder


def chosen(model: Path, tmp_path: Path, *options: str) -> tuple[dict[str, Any], str]:
    report, texts = tmp_path / "r.json", str(model / "texts.txt")
    place = ["--model", str(model), "--tokens", "16", "--preset", "insecure_toy_n10", "--texts", texts]
    status, out, err = run("choose", *place, "--json", str(report), *options)
    assert status == 0, err
    figures: dict[str, Any] = json.loads(report.read_text())
    return figures, out


def test_the_cheapest_that_fits_is_named_with_its_price(model: Path, tmp_path: Path) -> None:
    figures, out = chosen(model, tmp_path, "--inputs", "3", "--link", "100,20")
    rows = figures["options"]
    assert {row["scheme"] for row in rows} == set(PROMISES) and figures["inputs"] == 3
    assert all(row["fits"] and not row["reasons"] for row in rows)
    seconds = [row["all_seconds"] for row in rows]
    assert seconds == sorted(seconds) and figures["verdict"] == rows[0]["scheme"]
    assert f"{rows[0]['scheme']}: the cheapest that fits" in out
    thor = next(row for row in rows if row["scheme"] == "thor")
    assert thor["all_seconds"] == pytest.approx(thor["once_seconds"] + 3 * thor["seconds_per_request"])
    assert thor["all_bytes"] == thor["once_bytes"] + 3 * thor["bytes_per_request"]
    (two_parties,) = (row for row in rows if row["scheme"] == "bumblebee")
    assert two_parties["once_bytes"] == two_parties["all_bytes"] - 3 * two_parties["bytes_per_request"] > 4e6
    assert thor["once_seconds"] > 8 * thor["once_bytes"] / 100e6  # of the keys, sent over this link


def test_needs_leave_out_what_does_not_promise_them(model: Path, tmp_path: Path) -> None:
    figures, out = chosen(model, tmp_path, "--post-quantum", "--rounds", "one", "--client", "malicious")
    (left_out,) = [row for row in figures["options"] if not row["fits"]]
    assert left_out["scheme"] == "bumblebee" and len(left_out["reasons"]) == 3
    assert left_out["all_seconds"] is None and figures["verdict"] != "bumblebee"
    assert "bumblebee: it takes a connection with many rounds; a client" in out


@pytest.mark.parametrize(
    ("options", "verdict", "words"),
    [
        (["--server", "malicious-and-watching"], "nothing", "compute on a machine of your own"),
        (["--rounds", "one", "--seconds", "0.001"], "nothing", "within these limits"),
        (["--rounds", "one", "--megabytes", "0.001"], "nothing", "or trust a chip maker (TEE)"),
        (
            ["--trust", "operator", "--server", "malicious-and-watching"],
            "tls",
            "TLS to an ordinary server fits",
        ),
        (["--trust", "chip", "--server", "malicious-and-watching"], "tee", "a trusted processor fits"),
    ],
)
def test_it_says_when_another_way_fits_or_none(
    options: list[str], verdict: str, words: str, model: Path, tmp_path: Path
) -> None:
    figures, out = chosen(model, tmp_path, *options)
    assert figures["verdict"] == verdict and words in figures["reason"] and words in out


def test_what_is_no_need_is_refused() -> None:
    status, _, err = run("choose", "--trust", "everybody")
    assert status == 2 and "nobody" in err and "Traceback" not in err


def test_promises_are_those_of_the_threat_model() -> None:
    """A promise that a need is stronger than is missed, whatever the others are."""
    text = (Path(__file__).parents[3] / "docs" / "threat-model.md").read_text()
    assert "| weights | two-party client that deviates | **no** |" in text
    assert "| a recorded two-party session | a quantum computer to come | **no** |" in text
    assert "| text | two-party server that deviates | **no** |" in text
    assert "| text | server that deviates and sees what becomes of its answer | **no** |" in text
    for name, promise in PROMISES.items():
        two_party = name == "bumblebee"
        assert bool(promise.misses(Needs(client="malicious"))) == two_party
        assert bool(promise.misses(Needs(post_quantum=True))) == two_party
        assert bool(promise.misses(Needs(server="malicious"))) == two_party
        assert promise.misses(Needs(server="malicious-and-watching")) and not promise.misses(Needs())
