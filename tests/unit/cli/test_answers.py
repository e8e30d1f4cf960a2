"""What a run shows: sums of what really ran, no security where nothing is encrypted, hostile text made
harmless, and the JSON file before anything that can fail."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.runs import batch as bench_batch
from tacita import api
from tacita.api import Answer, plan
from tacita.cli import columns, console, demo, estimate, report, steps
from tacita.cli import plan as plan_command
from tacita.cli.ask import accuracy, remote
from tacita.cli.columns import Line
from tacita.cli.console import Screen, reporting
from tacita.cli.estimate import why
from tacita.cli.report import (
    Result,
    numbers,
    run_report,
    show_lines,
    show_results,
    show_run,
    status_of,
    summary_of,
)
from tacita.errors import FileError
from tacita.planning.request import Objective
from tacita.plans.json_fields import from_json
from tacita.plans.plan import Plan
from tacita.schemes.choose import Choice, Option
from tacita.texts.answer import withhold_failed

EVIL = "[/x]\x1b[2J\u202e\n\x9b31m\udcff[bold]"
ACTING = ("\x1b", "\u202e", "\x9b", "\udcff")
BOTH = (1.0, -2.0)  # logits
SECONDS = {"encrypt": 1.0, "evaluate": 45.0, "decrypt": 3.0}
OTHER = {"encrypt": 1.0, "evaluate": 27.0, "decrypt": 2.0}


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(tokens=16, preset="insecure_toy_n12", texts=["a film of quiet beauty", "a waste of time"])


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """All that is printed to either stream; it must encode, and nothing in it may act."""
    file = io.StringIO()
    for module in (
        console,
        report,
        demo,
        estimate,
        steps,
        columns,
        remote,
        plan_command,
        bench_batch,
        accuracy,
    ):
        for name in ("out", "err"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, Screen(file=file, width=400, highlight=False, emoji=False))
    yield file
    text = file.getvalue()
    text.encode("utf-8")
    assert not [character for character in ACTING if character in text]


def answered(label: str | None = "positive", text: str = "fine", **fields: Any) -> Result:
    return Result(
        Line(1, text),
        Answer(label, BOTH, ()),
        **{"request": 1, "seconds": SECONDS, "reference": BOTH, **fields},
    )


def run_of(made: Plan, results: list[Result], backend: str = "ckks") -> dict[str, Any]:
    once = {"plan": 4.0, "keygen": 8.0}
    return run_report(made, results, backend=backend, seconds=once, sizes={}, peak_rss_gb=1.0, threads=2)


def test_times_are_sums_and_means_of_what_ran(made: Plan, screen: io.StringIO) -> None:
    found = run_of(made, [answered(request=1), answered(request=2, seconds=OTHER)])
    assert found["seconds"] == {"plan": 4, "keygen": 8, "encrypt": 2, "evaluate": 72, "decrypt": 5}
    assert (found["wall_seconds"], found["seconds_per_input"], found["requests"]) == (79, 39.5, 2)
    show_run(found)
    assert "79 s, 39.50 s a text, 2 requests" in screen.getvalue()


def test_texts_of_one_request_share_its_time(made: Plan) -> None:
    found = run_of(made, [answered(), answered()])
    assert (found["wall_seconds"], found["seconds_per_input"], found["requests"]) == (49, 24.5, 1)


def test_every_sentence_of_the_demo_is_a_request(made: Plan, screen: io.StringIO, monkeypatch: Any) -> None:
    monkeypatch.setattr("tacita.api.reference_logits", lambda *_: (1.0, -2.0))
    steps = SimpleNamespace(
        client=[],
        server=[],
        call=lambda name, *_, accept=(0,): {
            "seconds": SECONDS,
            "label": EVIL,
            "logits": [1.0],
            "warnings": [EVIL],
            "trusted": True,
        },
    )
    nothing: Any = None
    found: list[Any] = [demo._classify(steps, made, nothing, EVIL, number) for number in (1, 2)]
    assert [(result.line.number, result.request) for result in found] == [(1, 1), (2, 2)]


@pytest.mark.parametrize("backend", ["plain", "sim"])
def test_a_run_in_the_clear_claims_no_protection(backend: str, made: Plan, screen: io.StringIO) -> None:
    found = run_of(made, [answered()], backend)
    assert (found["encrypted"], found["parameters"], found["bootstraps"]) == (False, None, None)
    show_run(found)
    assert f"none: {backend} encrypts nothing" in screen.getvalue()
    assert "bits" not in screen.getvalue()
    assert "bootstraps" not in screen.getvalue()


def test_an_embedding_is_shown_by_its_norm_and_first_values() -> None:
    values = (3.0, 4.0, 0.0, 0.0, 0.0, 0.0)
    assert summary_of(Answer(None, values, ())) == "6 numbers, norm 5.000"
    assert numbers(values) == "+3.000 +4.000 +0.000 +0.000 ..."
    assert summary_of(Answer("", values, ())) == ""


@pytest.mark.parametrize(
    "show", [show_results, show_lines, lambda found: steps._show_answer(found[0].answer, "1: ")]
)
def test_every_display_of_an_embedding_has_the_summary(
    show: Callable[[Any], None], screen: io.StringIO
) -> None:
    show([answered(None)])
    assert "2 numbers, norm 2.236" in screen.getvalue()
    assert "+1.000 -2.000" in screen.getvalue()


def test_a_request_that_one_text_spoiled_is_told_with_what_to_do(screen: io.StringIO) -> None:
    fine = Answer("positive", (1.0, -2.0), ())
    doubted = Answer(None, (), ("do not trust",), trusted=False)

    def of(answers: list[Answer], request: int) -> list[Result]:
        return [Result(Line(1, "text"), each, request, SECONDS, BOTH) for each in answers]

    show_lines([*of([doubted, fine], 1), *of([fine, fine], 2), *of([doubted], 3)])
    assert "--texts" not in screen.getvalue()  # texts that were far out themselves, or alone
    show_lines([*of([doubted, doubted], 1), *of([fine, doubted], 2), *of([doubted] * 3, 3)])
    assert "2 requests without an answer to trust" in screen.getvalue()
    assert "--texts FILE" in screen.getvalue()


@pytest.mark.parametrize(
    "show", [show_results, show_lines, lambda found: steps._show_answer(found[0].answer, "1: ")]
)
def test_an_answer_that_failed_its_checks_is_not_shown(
    show: Callable[[Any], None], made: Plan, screen: io.StringIO
) -> None:
    failed = withhold_failed(Answer("positive", (51.5, -52.5), ("do not trust",), trusted=False))
    results = [replace(answered(), answer=answer) for answer in (failed, failed.anyway)]
    show(results[:1])
    assert "no answer" in screen.getvalue() and "do not trust" in screen.getvalue()
    assert "positive" not in screen.getvalue() and "5" not in screen.getvalue()
    found = run_of(made, results[:1])
    assert found["label"] is found["logits"] is found["max_abs_error"] is None and found["agreement"] == 0
    show(results[1:])
    assert "positive" in screen.getvalue() and "+51.500" in screen.getvalue()
    assert run_of(made, results)["max_abs_error"] == 50.5


@pytest.mark.parametrize(
    ("answers", "complete", "status"),
    [
        ([Answer("L0", (1.0,), ())], True, 0),
        ([Answer("L0", (1.0,), ()), Answer("L0", (1.0,), ("rounded to multiples of 1",))], True, 1),
        ([Answer("L0", (1.0,), ())], False, 1),
        ([], False, 1),
        ([Answer("L0", (1.0,), ()), Answer(None, (), ("beyond",), trusted=False)], False, 2),
        ([Answer("L0", (9.0,), ("beyond",), trusted=False)], True, 2),  # shown by --show-anyway
    ],
)
def test_the_exit_status_follows_one_rule(answers: list[Answer], complete: bool, status: int) -> None:
    assert status_of(answers, complete=complete) == status


def hostile(made: Plan) -> Plan:
    """A plan whose every name was chosen by the other side."""
    data = json.loads(made.to_text())
    for stage in data["stages"]:
        stage["name"] = EVIL
        stage["levels"] = {EVIL: 3}
    data["prediction"]["machine"] = EVIL
    data["model"]["name"] = EVIL
    data["model"]["labels"] = [EVIL, EVIL]
    fields = {name: value for name, value in data.items() if name in Plan.__dataclass_fields__}
    found: Plan = from_json(Plan, fields)
    return found


def test_no_display_lets_text_of_others_act(
    made: Plan, screen: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Answer(EVIL, (1.0, -2.0), (EVIL,))
    result = Result(Line(1, EVIL), answer, 1, SECONDS, BOTH)
    show_results([result])
    show_lines([result])
    steps._show_answer(answer, "1: ")
    columns.report_problems(Path(EVIL), [Line(1, "", EVIL)])
    steps._notice(EVIL)
    console.fail(FileError(EVIL, hint=EVIL))
    evil = hostile(made)
    monkeypatch.setattr(plan_command, "load", lambda path: evil)
    plan_command.show(Path("plan.json"))
    estimate.show_stages(evil)
    estimate.show_estimate(evil, api.estimate(evil))
    cost = {"bytes_sent": 1.0, "bytes_received": 1.0, "rounds": 1.0}
    remote._show(replace(result, cost=cost))
    refused = Choice((Option("thor", 1, made), Option("arion", 1, None, EVIL)), Objective.latency)
    console.out.print(why(refused))
    assert screen.getvalue().count(r"\x1b[2J\u202e\n\x9b31m\udcff[bold]") > 12


def test_the_file_is_written_before_anything_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    with pytest.raises(ZeroDivisionError), reporting(path, {"label": "positive"}):
        raise ZeroDivisionError
    assert json.loads(path.read_text()) == {"label": "positive"}


def test_what_cannot_be_written_is_shown_and_then_told(tmp_path: Path) -> None:
    seen = []
    with pytest.raises(FileError, match="cannot be written"), reporting(tmp_path, {}):
        seen.append("the answer")
    assert seen == ["the answer"]


def test_a_reader_that_leaves_ends_nothing(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys\n"
        "from tacita.cli.console import out\n"
        "for _ in range(20000): out.print('x' * 80)\n"
        "pathlib.Path(sys.argv[1]).write_text('done')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "done")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.wait(180) == 0
    assert (tmp_path / "done").read_text() == "done"
