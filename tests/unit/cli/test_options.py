"""Options that several commands share: declared once, in every command's signature, read into a request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from random_checkpoint import make_random_checkpoint, write_folder
from test_cli import run

from tacita.cli.app import app
from tacita.cli.options import plan_request, taking
from tacita.planning.request import Objective
from tacita.plans.commitment import LINKS
from tacita.plans.scheme import AUTO, NAMES
from tacita.settings import Settings

TEXTS = ["a fine film", "the plot is dull", "never boring , very good"]
TOY = ["--preset", "insecure_toy_n10", "--tokens", "16"]
FOR_A_PLAN = {
    *("--model", "--pooling", "--documents", "--scheme", "--packing", "--inputs", "--objective", "--tokens"),
    *("--preset", "--functions", "--texts", "--begin", "--reveal"),
}
OPTIONS = {
    "plan": FOR_A_PLAN | {"--link"},
    "publish": FOR_A_PLAN,
    "estimate": FOR_A_PLAN | {"--link"},
    "classify": {"--model", "--scheme", "--tokens", "--preset", "--texts"},
    "accuracy": {"--model", "--pooling", "--scheme", "--packing", "--tokens", "--preset", "--texts"},
    "demo": {"--model", "--pooling", "--scheme", "--packing", "--tokens", "--preset"},
    "serve": {"--model", "--documents", "--scheme", "--tokens", "--texts"},
}


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Model, toy ring and calibration texts."""
    folder = tmp_path_factory.mktemp("asked")
    texts = folder / "calibration.txt"
    texts.write_text("\n".join(TEXTS))
    model = write_folder(make_random_checkpoint(layers=1), folder / "model")
    return ["--model", str(model), *TOY, "--texts", str(texts)]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_command_has_its_options_and_the_same_help(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    helps = {option: each.help for each in command.params for option in each.opts}
    assert OPTIONS[name] <= set(helps)
    assert not (FOR_A_PLAN - OPTIONS[name]) & set(helps)
    reference = typer.main.get_command(app).commands["plan"].params  # type: ignore[attr-defined]
    for each in reference:
        several = {"--model"} if name == "serve" else set[str]()  # of which it takes more than one
        for option in set(each.opts) & OPTIONS[name] - several:
            assert helps[option] == each.help


def test_options_become_settings_and_a_request(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("a fine film\n\nthe plot is dull\n")
    seen: list[Settings] = []

    @taking({"plan": ("model", "pooling", "scheme", "inputs", "objective", "texts", "link")})
    def command(settings: Settings, *, loud: bool = False) -> None:
        """Help."""
        assert loud
        seen.append(settings)

    toy = typer.Typer()
    toy.command()(command)
    given = [
        "--scheme",
        "arion",
        "--inputs",
        "3",
        "--objective",
        "latency",
        "--link",
        "lan",
        "--pooling",
        "mean",
    ]
    words = [*given, "--texts", str(tmp_path / "texts.txt"), "--model", str(tmp_path), "--loud"]
    toy(words, standalone_mode=False)
    (settings,) = seen
    request = plan_request(settings.plan)
    plan = settings.plan
    assert (plan.model, str(plan.pooling), request.scheme_name) == (tmp_path, "mean", "arion")
    assert (request.inputs, request.goal, request.link) == (3, Objective.latency, LINKS["LAN"])
    assert request.texts == ("a fine film", "the plot is dull")
    assert (request.tokens, request.preset, request.functions) == (128, "n16", "tacita")


def test_a_command_reads_the_settings_that_it_takes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACITA_PLAN__INPUTS", "5")
    monkeypatch.setenv("TACITA_RUN__THREADS", "2")
    seen: list[Settings] = []
    taking({"plan": ("tokens",)}, {"run": ("threads",)})(lambda settings: seen.append(settings))(
        config=None, tokens=16
    )
    assert (seen[0].plan.tokens, seen[0].plan.inputs, seen[0].run.threads) == (16, None, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "--scheme", "thorn"], f"(did you mean thor? one of {', '.join((*NAMES, AUTO))})"),
        (["estimate", "--link", "fast"], "no link 'fast'"),
        (["publish", "--scheme", "bumblebee"], "bumblebee answers over a connection"),
        (["demo", "--scheme", "bumblebee"], "bumblebee passes no files"),
        (["serve", "--scheme", "thor", "--insecure-plain-tcp"], "a server of thor waits for no connection"),
        (["accuracy", "--data", "x.tsv", "--functions", "arion"], "--functions"),
        (["accuracy", "--data", "x.tsv", "--json", "."], "cannot be written (it is a folder)"),
        (["estimate", "--plot", "."], "cannot be written (it is a folder)"),
        (["publish", "--output", "."], "which is no part of a public folder"),
        (["recheck", ".", "--record", "fine"], "not empty"),
        (["recheck", "none", "--record", "fine", "--preset", "insecure_toy_n10"], "128 are required"),
        (["demo", "--preset", "insecure_toy_n10"], "128 are required"),
        (["demo", "--device", "opencl:77"], "device opencl:77"),
        (["classify", "fine", "--scheme", "bumblebee", "--device", "opencl"], "and bumblebee has none"),
        (["recheck", "none", "--record", "fine", "--scheme", "bumblebee"], "answers over a connection"),
    ],
)
def test_what_a_command_cannot_do_is_said_before_any_work(words: list[str], message: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert message in " ".join(err.split())


def test_a_plan_of_two_parties_is_written_shown_and_priced(common: list[str], tmp_path: Path) -> None:
    path, report = tmp_path / "plan.json", tmp_path / "report.json"
    status, out, err = run(
        "plan", "--scheme", "bumblebee", *common, "--work", str(tmp_path), "--json", str(report)
    )
    assert (status, err) == (0, "")
    assert "bumblebee needs a connection" in out
    assert json.loads(report.read_text())["scheme"] == "bumblebee"
    assert list(tmp_path.glob("*.salt")) == []
    status, out, _ = run("plan", "show", str(path))
    assert status == 0 and "scheme bumblebee, 1 texts a request" in out and "sent, both directions" in out
    priced = ["--plan", str(path), "--inputs", "3", "--link", "10,50", "--json", str(report)]
    status, out, _ = run("estimate", *priced)
    found = json.loads(report.read_text())
    assert status == 0 and "a text, 10 Mbit/s, 50 ms" in out
    assert found["wall_seconds"] == pytest.approx(3 * found["seconds_per_input"]["10 Mbit/s, 50 ms"])
    assert list(found["seconds_per_input"]) == ["loopback", "LAN", "WAN", "FAR", "10 Mbit/s, 50 ms"]
    status, _, err = run("evaluate", "--work", str(tmp_path))
    assert status == 2 and "a plan of two parties" in err


def test_auto_says_what_it_could_not_weigh_and_why_a_winner_is_not_published(
    common: list[str], tmp_path: Path
) -> None:
    status, out, _ = run("estimate", "--scheme", "auto", *common)
    assert status == 0 and "bumblebee: needs a connection; pass --link to weigh it" in out.splitlines()[0]
    larger = [*common, "--preset", "insecure_toy_n12"]  # where ciphertexts take longer than shares
    work = ["--work", str(tmp_path / "work"), "--output", str(tmp_path / "public")]
    status, out, err = run("publish", "--scheme", "auto", *larger, *work, plan__link="1000000,0")
    assert status == 2 and "bumblebee answers over a connection" in err
    assert out.startswith("scheme auto: bumblebee (1 text: bumblebee ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["arion", "bumblebee"])
def test_accuracy_takes_every_scheme(scheme: str, common: list[str], tmp_path: Path) -> None:
    data, report = tmp_path / "data.tsv", tmp_path / "report.json"
    data.write_text("sentence\tlabel\na fine film\t1\nthe plot is dull\t0\n")
    words = ["--data", str(data), "--scheme", scheme, "--threads", "1", *common, "--json", str(report)]
    status, _, err = run("accuracy", *words)
    assert status == 0, err
    found = json.loads(report.read_text())
    assert (found["scheme"], found["agreement"], found["warnings"]) == (scheme, 1.0, 0)


@pytest.mark.native
def test_bumblebee_without_a_server_runs_one_of_its_own(
    common: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file, report = tmp_path / "texts.txt", tmp_path / "report.json"
    file.write_text("a fine film\n" + "very " * 30 + "\nthe plot is dull\n")
    words = ["--file", str(file), "--scheme", "bumblebee", *common, "--json", str(report)]
    status, out, err = run("classify", *words, run__threads=1)
    found = json.loads(report.read_text())
    assert status == 1 and f"{file}:2: " in err  # the line that is too long
    assert "no --connect: both parties run here; a server of our own listens on 127.0.0.1:" in out
    assert [row["line"] for row in found["results"]] == [1, 3]
    assert found["bytes_sent"] > 0
