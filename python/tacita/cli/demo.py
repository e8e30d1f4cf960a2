"""`tacita demo`: the five steps as two parties would run them, each in its own process, through files; and
`tacita demo-service`: a server, and a client by each of its schemes."""

from __future__ import annotations

import json as json_module
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacita import api
from tacita.checkpoint import Checkpoint, load
from tacita.cli.columns import Line
from tacita.cli.console import INCOMPLETE, UNTRUSTED, duration, out, progress, reporting, say, shown, size
from tacita.cli.options import TOKENS_DEFAULT, Json, Values, model_folder, plan_request, taking, variables
from tacita.cli.report import Outcome, Result, run_report, show_results, show_run, summary_of
from tacita.errors import InputError, TacitaError
from tacita.extras import needing
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import require_device
from tacita.schemes.base import REAL, require_allowed
from tacita.schemes.registry import REGISTRY
from tacita.settings import PlanOptions, RunOptions, Settings

if TYPE_CHECKING:
    from tacita.cli.service.started import Started

SENTENCES = (
    "a film of quiet beauty, and the ending stayed with me for days",
    "two hours of my life that i will never get back",
)


@taking(
    {
        "plan": ("model", "pooling", "scheme", "packing", "tokens", "preset"),
        "run": ("threads", "device", "allow_insecure"),
    },
    {"plan": ("functions", "texts", "prices"), "run": ("memory",)},
)
def demo(
    settings: Settings,
    json: Json = None,
    text: Annotated[list[str] | None, typer.Option("--text", help="Texts instead of the demo's own.")] = None,
) -> None:
    """Encrypt sentences, classify them on a server that cannot read them, decrypt the answers."""
    request, model = plan_request(settings.plan), model_folder(settings.plan.model or api.DEFAULT_MODEL)
    if (scheme := REGISTRY.get(request.scheme_name)) and scheme.connected:
        raise InputError(
            f"demo: {scheme.name} passes no files, which is what the demo's steps do",
            hint=f"tacita classify TEXT --scheme {scheme.name} runs both of its sides here",
        )
    require_allowed(request, REAL, allow_insecure=settings.run.allow_insecure)
    require_device(settings.run.device)
    with tempfile.TemporaryDirectory(prefix="tacita-demo-") as folder:
        steps = _Steps(Path(folder), settings.plan.model_copy(update={"model": model}), settings.run)
        out.print("[bold]server[/bold] plans, and publishes all but the weights")
        steps.call("plan")
        steps.call("publish", "--output", steps.client[1], "--planned")
        out.print("[bold]client[/bold]")
        steps.call("keygen", *steps.client)
        plan = Plan.load(Workdir(Path(folder)).plan)
        checkpoint = load(model, pooling=plan.model.pooling)
        sentences = enumerate(text or SENTENCES, 1)
        results = [_classify(steps, plan, checkpoint, sentence, number) for number, sentence in sentences]
        figures = run_report(
            plan,
            results,
            backend="ckks",
            seconds={name: steps.seconds[name] for name in ("plan", "keygen")},
            sizes=steps.sizes,
            peak_rss_gb=max(steps.peaks.values()),
            threads=steps.threads,
        )
    figures["peak_rss_gb_by_step"] = steps.peaks
    with reporting(json, figures):
        show_results(results)
        show_run(figures)
    Outcome(results, checkpoint.name, checkpoint.sha256, complete=True).end()


def _classify(steps: _Steps, plan: Plan, model: Checkpoint, sentence: str, number: int) -> Result:
    """One request: its three steps, each in a process of its own."""
    out.print(f'[bold]client[/bold] encrypts "{shown(sentence)}"')
    taken = {"encrypt": steps.call("encrypt", *steps.client, "--", sentence)["seconds"]["encrypt"]}
    out.print("[bold]server[/bold] sees ciphertexts only")
    taken["evaluate"] = steps.call("evaluate")["seconds"]["evaluate"]
    out.print("[bold]client[/bold] decrypts")
    report = steps.call("decrypt", *steps.client, accept=(0, INCOMPLETE, UNTRUSTED))
    taken["decrypt"] = report["seconds"]["decrypt"]
    logits, trusted = tuple(report["logits"] or ()), report["trusted"]
    answer = api.Answer(report["label"], logits, tuple(report["warnings"]), trusted=trusted)
    reference = tuple(float(v) for v in api.reference_logits(plan, model, sentence))
    return Result(Line(number, sentence), answer, number, taken, reference)


class _Steps:
    """Runs `tacita STEP` processes on one folder and collects the figures that they report.

    client: options of its steps. environment: of all, with the settings. seconds: of each step's first call.
    sizes: of the files. peaks: largest resident set of each step, GB.
    """

    def __init__(self, folder: Path, plan: PlanOptions, run: RunOptions) -> None:
        self.folder, self.client = folder, ("--public", str(folder / "public"))
        named = {"plan": plan.model_dump(exclude_unset=True), "run": run.model_dump(exclude_unset=True)}
        self.environment = os.environ | variables(named)
        self.seconds, self.sizes, self.peaks = dict[str, float](), dict[str, int](), dict[str, float]()
        self.threads = 0

    def call(self, name: str, *arguments: str, accept: Sequence[int] = (0,)) -> dict[str, Any]:
        """Returns the report of one step. Raises TacitaError when it fails; its own message is on the screen
        already."""
        path = self.folder / f"{name}.report.json"
        path.unlink(missing_ok=True)
        options = ["--work", str(self.folder), "--json", str(path), *arguments]
        command, shown_at = [sys.executable, "-m", "tacita", name, *options], 2 if out.stderr else None
        done = subprocess.run(command, check=False, stdout=shown_at, env=self.environment)
        status = done.returncode
        if status not in accept or not path.exists():
            raise TacitaError(f"demo: step {name} ended with status {status}", hint="its message is above")
        report: dict[str, Any] = json_module.loads(path.read_text())
        self.seconds.setdefault(name, report["seconds"][name])
        self.sizes.update(report.get("bytes", {}))
        self.peaks[name] = max(self.peaks.get(name, 0.0), report["peak_rss_gb"])
        self.threads = report.get("threads", self.threads)
        return report


# `tacita demo-service` runs a server and two clients here, one by ciphertexts and one by two parties.

TEXTS = {"thor": "a film of quiet beauty", BUMBLEBEE: "a waste of time"}
AskedText = Annotated[str | None, typer.Option("--text", help="What both clients ask.", show_default=False)]


@taking({"plan": ("tokens", "preset"), "run": ("device", "allow_insecure")})
def demo_service(settings: Settings, text: AskedText = None) -> None:
    """Start a server, ask it by both of its schemes, and stop it."""
    run, tokens = settings.run, settings.plan.tokens or TOKENS_DEFAULT
    with needing("service", "demo-service"), needing("client", "demo-service"):
        from tacita.cli.service.started import started
    options = ["--schemes", ",".join(TEXTS), "--tokens", str(tokens)]
    how = {"allow_insecure": run.allow_insecure, "device": run.device}
    more: Values = {"plan": {"preset": settings.plan.preset}, "run": how}
    with tempfile.TemporaryDirectory(prefix="tacita-service-") as name:
        folder = Path(name)
        with started(folder, *options, settings=more) as server:
            for line in server.greeting:
                say(line)
            for scheme, usual in TEXTS.items():
                _ask(server, scheme, text or usual, folder / scheme, insecure=run.allow_insecure)
    out.print("the server has ended; its folder and both clients' keys are gone")


def _ask(server: Started, scheme: str, text: str, data: Path, *, insecure: bool) -> None:
    """Asks as one client, whose token, keys and cache are its own."""
    from tacita.client.connect import connect

    token, trust, began = server.token(scheme), server.certificate, time.monotonic()
    with progress(f"a client by {scheme}") as report:
        how = {"token": token, "trust": trust, "data": data, "progress": report, "allow_insecure": insecure}
        with connect(server.url, **how) as service:  # type: ignore[arg-type]
            answer, cost = service.classify(text, scheme=scheme), service.last
    took = f"{duration(time.monotonic() - began)} with all that is done once"
    sent = f", {size(cost.sent)} sent, {size(cost.received)} received" if cost else ""
    say(f"{scheme}: {shown(repr(text))} is {summary_of(answer)}; {took}{sent}")
