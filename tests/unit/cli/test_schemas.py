"""`tacita schema`, and what commands write by `--json`: each report against the schema of its command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from tacita.cli import demo
from tacita.cli.app import app, main
from tacita.cli.ask.accuracy import language
from tacita.cli.ask.measure import Row
from tacita.cli.ask.schemas import SCHEMAS, schema_of

TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]
TOY = ["--tokens", "16", "--preset", "insecure_toy_n10"]
BIO = ("O", "B-PER", "I-PER")
MODELS: dict[str, Any] = {
    "classify": {},
    "embed": {"labels": (), "pooling": "mean"},
    "rerank": {"labels": ("score",)},
    "tag": {"labels": BIO, "task": "tokens"},
    "answer": {"labels": ("start", "end"), "task": "span"},
    "fill": {"labels": (), "task": "words"},
}
WORDS = {
    "classify": [TEXTS[0], "bad"],
    "embed": [TEXTS[0]],
    "rerank": ["a fine film", "bad", "is it dull"],
    "tag": ["the plot is a fine film"],
    "answer": ["is it dull", "--context", "the plot is never dull , a very good film"],
    "fill": ["the [MASK] is a [MASK]"],
}


def check(command: str, report: Any) -> None:
    """Raises jsonschema.ValidationError unless the report is one of its command."""
    schema = schema_of(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(report, schema, jsonschema.Draft202012Validator)


@pytest.fixture
def toy(tmp_path: Path) -> list[str]:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    return [*TOY, "--texts", str(tmp_path / "texts.txt")]


def reported(capsys: pytest.CaptureFixture[str], command: str, *words: str) -> Any:
    """Runs a command with `--json -` and returns the report, which is all of its standard output."""
    capsys.readouterr()
    status = main([*command.split(), *words, "--json", "-"])
    out, err = capsys.readouterr()
    assert status in (0, 1), err
    check(command, report := json.loads(out))
    return report


@pytest.mark.parametrize("verb", sorted(MODELS))
def test_answers_have_their_schema(
    verb: str, toy: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_folder(make_random_checkpoint(layers=1, **MODELS[verb]), tmp_path / "model")
    options = ["--model", str(model), "--backend", "plain", "--scheme", "bumblebee", *toy]
    report = reported(capsys, verb, *WORDS[verb], *options)
    assert report["results"] and type(report["results"][0]["line"]) is int


def test_other_reports_have_their_schema(
    toy: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", str(write_folder(make_random_checkpoint(layers=1), tmp_path / "model"))]
    (tmp_path / "data.tsv").write_text("sentence\tlabel\na fine film\t1\nbad\t0\nworse\n")
    data = ["--data", str(tmp_path / "data.tsv"), "--backend", "plain"]
    measured = reported(capsys, "accuracy", *model, *data, *toy)
    assert measured["rejected"]
    lost = Row(3, (-1.0,) * 4, (-1.0,) * 4, 0.1, 1, empty=True)  # a word, the only one
    check("accuracy", measured | language([lost]))
    for scheme in ("thor", "bumblebee"):
        reported(capsys, "estimate", *model, "--scheme", scheme, "--inputs", "3", *toy)
    reported(capsys, "generate", "Emma could", "--max-tokens", "2")
    reported(capsys, "choose", *model, "--server", "malicious-and-watching", *toy)
    reported(capsys, "keys list")
    data_folder = ["--data", str(tmp_path / "data")]
    assert run("token", "add", "clinic", *data_folder)[0] == 0
    reported(capsys, "token list", *data_folder)


def test_scores_of_documents_have_their_schema(
    toy: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = tmp_path / "index"
    folder = write_folder(make_random_checkpoint(layers=1, **MODELS["embed"]), tmp_path / "random")
    how = ["--model", str(folder), "--backend", "plain", "--scheme", "bumblebee", *toy]
    assert run("embed", *TEXTS, *how, "--index", str(index))[0] == 0
    reported(capsys, "search", TEXTS[0], "--documents", str(index), *how)


@pytest.mark.native
def test_the_demo_and_its_steps_have_their_schemas(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are processes of their own, whose standard output is not the report's either."""
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    model, call, seen = (
        write_folder(make_random_checkpoint(layers=1), tmp_path / "m"),
        demo._Steps.call,
        set(),
    )

    def checked(self: Any, name: str, *words: str, **how: Any) -> dict[str, Any]:
        report = call(self, name, *words, **how)
        check(name, report)
        seen.add(name)
        return report

    monkeypatch.setattr(demo._Steps, "call", checked)
    capfd.readouterr()
    main(["demo", "--model", str(model), *TOY, "--allow-insecure", "--text", "fine", "--json", "-"])
    check("demo", json.loads(capfd.readouterr().out))
    assert seen == {"plan", "publish", "keygen", "encrypt", "evaluate", "decrypt"}


def commands(command: Any, *path: str) -> dict[str, Any]:
    below = getattr(command, "commands", {})
    named = {" ".join(path): command} if path else {}
    return named | {k: v for name, each in below.items() for k, v in commands(each, *path, name).items()}


def test_every_command_that_writes_json_has_a_schema() -> None:
    writing = {
        name
        for name, command in commands(typer.main.get_command(app)).items()
        if any("--json" in option.opts for option in command.params)
    }
    assert writing == set(SCHEMAS)


def test_a_schema_is_printed_and_an_unknown_one_refused() -> None:
    status, out, _ = run("schema", "keys", "list")
    assert status == 0 and json.loads(out)["title"] == "tacita keys list --json"
    assert json.loads(run("schema", "classify")[1])["anyOf"]
    status, _, err = run("schema", "clasify")
    assert status == 2 and "did you mean classify?" in err


def test_bytes_are_integers_and_a_field_of_another_name_is_refused() -> None:
    copy = {"keys": 1, "requests": 2, "left_out": 0, "files": 3, "bytes": 4}
    check("backup", copy)
    for wrong in ({**copy, "bytes": 4.5}, {**copy, "more": 1}, {**copy, "bytes": "4"}):
        with pytest.raises(jsonschema.ValidationError):
            check("backup", wrong)
    with pytest.raises(jsonschema.ValidationError):
        check("restore", {"keys": 1})
