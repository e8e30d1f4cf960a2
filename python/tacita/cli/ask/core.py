"""Asks a model for all commands: takes lines of texts, on the interpreter of choice or with a server, and
shows and reports the answers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.ask import remote
from tacita.cli.ask.remote import Question
from tacita.cli.columns import Line, checked, in_pairs, read_lines, read_pairs, report_problems
from tacita.cli.console import INCOMPLETE, duration, out, progress, reporting, several
from tacita.cli.making import planned
from tacita.cli.options import load_model, plan_request
from tacita.cli.report import Classified, run_report, show_lines, show_results, show_run, status_of
from tacita.errors import InputError
from tacita.planning.request import PlanRequest
from tacita.plans.commitment import LinkSpeed
from tacita.plans.files import Workdir
from tacita.resources import peak_memory_gb
from tacita.resources import threads as all_threads
from tacita.schemes.base import AnyPlan, Place, Seconds, require_allowed, save
from tacita.schemes.registry import scheme_of
from tacita.schemes.two_parties import listening
from tacita.server.machines.cluster import Where, require_reachable, where_of
from tacita.server.machines.costs import NODES
from tacita.server.machines.spread import Group, Spread, spreading
from tacita.settings import BackendName, NetworkOptions, Settings
from tacita.texts.embed import Text
from tacita.texts.task import require_kind
from tacita.two_party.plan.plan import TwoPartyPlan

Answerer = Callable[
    [Sequence[Text], str], tuple[list[api.Answer], Seconds]
]  # texts of one request, title of its bar


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command. answers: beside their lines. model, sha256: the model's name, and its hash
    where the model is on this machine. complete: whether every line has an answer."""

    answers: Sequence[tuple[Line, api.Answer]]
    model: str
    sha256: str
    complete: bool

    def end(self) -> None:
        """Ends the command by typer.Exit where its exit status (`cli.app`) is not 0."""
        if status := status_of((answer for _, answer in self.answers), complete=self.complete):
            raise typer.Exit(status)


def lines_of(verb: str, texts: Sequence[str], file: Path | None, *, pair: bool = False) -> list[Line]:
    """Reads the texts of the command line or of a file. Raises InputError for both or none, or an empty
    text."""
    if bool(texts) == (file is not None):
        raise InputError(f"{verb}: give texts or a --file of them", hint="exactly one of the two")
    if file is not None:
        return read_pairs(file) if pair else read_lines(file)
    if not all(text.strip() for text in texts):
        raise InputError(f"{verb}: the text is empty", hint="pass at least one word")
    return in_pairs(texts) if pair else [Line(number, text) for number, text in enumerate(texts, 1)]


def ask(question: Question, settings: Settings, json: Path | None) -> Outcome:
    """Asks, shows and reports all texts, and returns their answers. json: the file of the report. Raises
    typer.Exit where no line can be asked, and what planning and running raise."""
    require_spread(settings)
    question = replace(question, show_anyway=settings.run.show_anyway)
    if settings.network.connect:
        return _remote(question, settings, json)
    run, request = settings.run, plan_request(settings.plan)
    backend = run.backend or "ckks"
    require_allowed(request, backend, allow_insecure=run.allow_insecure)
    checkpoint = load_model(settings.plan)
    require_kind(question.verb, checkpoint.config, *question.others)
    question.suits(checkpoint.name, checkpoint.sha256)
    file, lines = question.file, question.lines
    lines = checked(checkpoint, lines, request.tokens) if file else lines
    spoiled = report_problems(file, lines) if file else False
    if not (good := [line for line in lines if not line.problem]):
        raise typer.Exit(INCOMPLETE)
    began = time.monotonic()
    plan = planned(checkpoint, _request_for(request, good, several=file is not None))
    seconds = {"plan": time.monotonic() - began}
    if isinstance(plan, TwoPartyPlan) and backend == "ckks" and not settings.ray.address:
        with _own_server(plan, checkpoint, settings) as own:
            outcome = _remote(replace(question, lines=good), own, json)
        return replace(outcome, sha256=checkpoint.sha256, complete=outcome.complete and not spoiled)
    results = _on_this_machine(plan, checkpoint, lines, question, settings, json, seconds, request.link)
    answers = [(line, result.answer) for line, result in zip(good, results, strict=True)]
    return Outcome(answers, checkpoint.name, checkpoint.sha256, not spoiled)


def _request_for(request: PlanRequest, lines: Sequence[Line], *, several: bool) -> PlanRequest:
    """Returns the plan request for these texts: calibrated for them, and with their number where it
    matters."""
    request = request.calibrated_for([line.text for line in lines])
    return replace(request, inputs=len(lines) if several or request.scheme else None)


def _remote(question: Question, settings: Settings, json: Path | None) -> Outcome:
    results, complete, name = remote.ask(question, settings, json)
    return Outcome([(result.line, result.answer) for result in results], name, "", complete)


def _on_this_machine(
    plan: AnyPlan,
    checkpoint: Checkpoint,
    lines: Sequence[Line],
    question: Question,
    settings: Settings,
    json: Path | None,
    seconds: Seconds,
    link: LinkSpeed | None,
) -> list[Classified]:
    """Answers on this machine, beside the float model; shows the answers and the run's figures."""
    run, more = settings.run, dict[str, Any]()
    work, backend = run.work, run.backend or "ckks"
    good = [line for line in lines if not line.problem]
    texts = [line.text for line in good]
    with nullcontext(work) if work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
        place = Place(Path(folder), run.threads, run.memory, run.allow_insecure, bar=progress)
        save(plan, Workdir(Path(folder)).plan) if work else None
        here = _answerer(backend, plan, checkpoint, place, seconds)
        ray = (plan, checkpoint, place, settings, texts, link, seconds, more)
        with by_ray(*ray) if settings.ray.address else here as answerer:
            results = _answered(plan, checkpoint, good, answerer, question.visible)
        sizes = _sizes(Workdir(Path(folder)))
    figures = run_report(
        plan,
        results,
        backend=backend,
        seconds=seconds,
        sizes=sizes,
        peak_rss_gb=peak_memory_gb(),
        threads=run.threads or all_threads(),
    )
    figures["rejected"] = [{"line": line.number, "error": line.problem} for line in lines if line.problem]
    figures |= more
    with reporting(json, figures):
        show_lines(results) if question.file else show_results(results)
        show_run(figures)
    return results


def _answered(
    plan: AnyPlan,
    checkpoint: Checkpoint,
    lines: Sequence[Line],
    answerer: Answerer,
    visible: Callable[[api.Answer], api.Answer],
) -> list[Classified]:
    """Answers the texts, as many a request as the plan holds. visible: `Question.visible`."""
    groups = [lines[at : at + plan.batch] for at in range(0, len(lines), plan.batch)]
    results: list[Classified] = []
    for index, group in enumerate(groups, 1):
        title = f"request {index} of {len(groups)}, " if len(groups) > 1 else ""
        answers, seconds = answerer([line.text for line in group], title)
        for line, answer in zip(group, answers, strict=True):
            reference = tuple(np.ravel(api.reference_logits(plan, checkpoint, line.text)).tolist())
            results.append(Classified(line.text, visible(answer), reference, seconds, line.number, index))
    return results


@contextmanager
def _own_server(plan: TwoPartyPlan, checkpoint: Checkpoint, settings: Settings) -> Iterator[Settings]:
    """Starts a two-party server on this machine, and yields the settings that ask it."""
    with listening(scheme_of(plan.scheme).server(plan, checkpoint), settings.run.threads) as address:
        target = f"{address.host}:{address.port}"
        out.print(
            f"no --connect: both parties run here; a server of our own listens on {target}, "
            f"certificate SHA-256 {address.fingerprint}",
            soft_wrap=True,
        )
        network = settings.network
        own = NetworkOptions(
            connect=target,
            fingerprint=address.fingerprint,
            timeout=network.timeout,
            profile=network.profile,
        )
        yield settings.model_copy(update={"network": own})


@contextmanager
def _answerer(
    backend: BackendName, plan: AnyPlan, checkpoint: Checkpoint, place: Place, seconds: Seconds
) -> Iterator[Answerer]:
    """Yields what answers a request: in the clear, or with both sides on this machine. The seconds of what is
    done once are added to `seconds`."""
    if backend != "ckks":
        yield lambda texts, title: _locally(backend, plan, checkpoint, texts, title)
        return
    with scheme_of(plan.scheme).private(plan, checkpoint, place) as private:
        seconds |= private.seconds
        yield private.answer


def _locally(
    backend: BackendName, plan: AnyPlan, checkpoint: Checkpoint, texts: Sequence[Text], title: str
) -> tuple[list[api.Answer], Seconds]:
    began = time.monotonic()
    with progress(f"{title}{backend}") as report:
        answers = api.classify_batch_locally(plan, checkpoint, texts, backend=backend, progress=report)
    return answers, {"evaluate": time.monotonic() - began}


def _sizes(files: Workdir) -> dict[str, int]:
    """Returns the bytes of the files that pass between the parties; 0 where none was made."""
    paths = {"evaluation_keys": files.evaluation_keys, "request": files.request, "response": files.response}
    return {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}


# `--ray`: requests are spread over machines; the predicted time stands before and beside the measured one.

MANY = 16  # nodes that a prediction is shown for, too


def require_spread(settings: Settings) -> None:
    """Checks the options before a plan is made. Raises InputError for those that do not go together, or
    without Ray."""
    backend = settings.run.backend
    if settings.ray.address is None:
        return
    where = _where(settings)
    if settings.network.connect:
        raise InputError("both --ray and --connect", hint="one of the two: who evaluates")
    if backend not in (None, "ckks"):
        raise InputError(f"--ray with --backend {backend}", hint="it evaluates what is encrypted")
    require_reachable(where)


@contextmanager
def by_ray(
    plan: AnyPlan,
    model: Checkpoint,
    place: Place,
    settings: Settings,
    texts: Sequence[Text],
    link: LinkSpeed | None,
    seconds: Seconds,
    figures: dict[str, Any],
) -> Iterator[Answerer]:
    """Yields what answers request after request, which are evaluated side by side. Afterwards `seconds` has
    those of what was done once, and `figures` what the report says of the machines. Raises as `spreading`."""
    groups = [texts[at : at + plan.batch] for at in range(0, len(texts), plan.batch)]
    with spreading(plan, model, place, _where(settings), link=link) as run:
        first = run.forecast(len(groups))
        out.print(f"{first.words()}; {duration(first.seconds)} by prediction", soft_wrap=True)
        began, answers = time.monotonic(), run.answers(groups)
        yield lambda texts, title: next(answers)
        measured = time.monotonic() - began
        seconds |= run.seconds
        figures |= _ray_figures(run, groups, measured, seconds)
        _show_ray(run, len(groups), measured)


def _where(settings: Settings) -> Where:
    ray = settings.ray
    return where_of(ray.address or "", ray.nodes, ray.cores)


def _ray_figures(run: Spread, groups: Sequence[Group], measured: float, seconds: Seconds) -> dict[str, Any]:
    """Returns the figures of a run side by side, which replace the sums over its requests."""
    wall, count = measured - seconds.get("keygen", 0.0), sum(map(len, groups))
    sites = run.nodes.sites
    cluster = {
        "nodes": len({site.node for site in sites}),
        "evaluators": min(run.evaluators, len(groups)),
        "cores": [site.cores for site in sites],
        "measured_seconds": measured,
        "processor_seconds_per_request": sum(run.processor) / len(groups),
        "predicted": run.forecast(len(groups)).to_json(),
        "predicted_by_nodes": {n: run.forecast(len(groups), n).to_json() for n in NODES},
    }
    each = {"seconds_per_input": wall / count, "seconds_per_request": wall / len(groups)}
    return {"wall_seconds": wall, **each, "cluster": cluster}


def _show_ray(run: Spread, requests: int, measured: float) -> None:
    here, many = (run.forecast(requests, count) for count in (None, MANY))
    on = several(here.evaluators, "evaluator")
    out.print(
        f"on {on}: {duration(measured)} measured, {duration(here.seconds)} predicted; "
        f"{duration(many.seconds)} predicted on {MANY} such nodes",
        soft_wrap=True,
    )
