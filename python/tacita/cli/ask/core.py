"""Asks a model for all commands: takes lines of texts, on the interpreter of choice or with a server, and
shows and reports the answers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.cli.ask import remote
from tacita.cli.ask.remote import Question
from tacita.cli.columns import Line, admitted, in_pairs, read_lines, read_pairs
from tacita.cli.console import duration, progress, reporting, say, several, writable
from tacita.cli.estimate import planned
from tacita.cli.options import load_model, plan_request
from tacita.cli.report import Outcome, Result, run_report, show_lines, show_results, show_run
from tacita.errors import InputError
from tacita.plans.commitment import LinkSpeed
from tacita.plans.files import Workdir
from tacita.plans.scheme import BUMBLEBEE
from tacita.resources import peak_memory_gb, require_device
from tacita.resources import threads as all_threads
from tacita.schemes.base import REAL, AnyPlan, Place, Seconds, require_allowed, save
from tacita.schemes.registry import scheme_of
from tacita.schemes.two_parties import listening
from tacita.server.machines.cluster import Where, require_reachable, where_of
from tacita.server.machines.costs import NODES
from tacita.server.machines.spread import Spread, spreading
from tacita.settings import NetworkOptions, Settings
from tacita.texts.embed import Text
from tacita.texts.task import require_kind
from tacita.two_party.plan.plan import TwoPartyPlan

# texts of one request, title of its bar -> answers, seconds by step
Answerer = Callable[[Sequence[Text], str], tuple[list[api.Answer], Seconds]]
MANY = 16  # nodes that a prediction by `--ray` is shown for, too


def question_of(
    verb: str, texts: Sequence[str] | None, file: Path | None, *, pair: bool = False, **more: Any
) -> Question:
    """Returns the question about the texts of the command line or of a file. verb: what a model is asked for.
    more: fields of `Question`. Raises InputError for both or none, or an empty text."""
    if bool(texts) == (file is not None):
        raise InputError(f"{verb}: give texts or a --file of them", hint="exactly one of the two")
    if file is not None:
        return Question(verb, read_pairs(file) if pair else read_lines(file), file, **more)
    assert texts is not None  # without a file
    if not all(text.strip() for text in texts):
        raise InputError(f"{verb}: the text is empty", hint="pass at least one word")
    lines = in_pairs(texts) if pair else [Line(number, text) for number, text in enumerate(texts, 1)]
    return Question(verb, lines, **more)


def ask(question: Question, settings: Settings, json: Path | None) -> Outcome:
    """Asks, shows and reports all texts. json: the file of the report. Raises typer.Exit where no line can be
    asked, and what planning and running raise."""
    run, clear = settings.run, settings.run.backend not in (None, REAL) and "--backend"
    connect, by_ray = settings.network.connect and "--connect", settings.ray.address and "--ray"
    require_device(run.device, connect, by_ray, clear, settings.plan.scheme == BUMBLEBEE and BUMBLEBEE)
    _require_spread(settings)
    question = replace(question, show_anyway=run.show_anyway)
    if settings.network.connect:
        return remote.ask(question, settings, json)
    request, backend = plan_request(settings.plan), run.backend or "ckks"
    require_allowed(request, backend, allow_insecure=run.allow_insecure)
    writable(run.work and Workdir(run.work).plan)
    checkpoint = load_model(settings.plan)
    require_kind(question.verb, checkpoint.config, *question.others)
    question.suits(checkpoint.name, checkpoint.sha256)
    lines = question.windows(checkpoint, request.tokens)
    good, bad = admitted(checkpoint, request.tokens, lines, question.file)
    began = time.monotonic()
    inputs = len(good) if question.file or request.scheme else None
    request = request.calibrated_for([line.text for line in good])
    quick = backend == "plain" and not run.work  # a plan that stays may be used for encryption
    plan = planned(checkpoint, replace(request, inputs=inputs, quick=quick))
    seconds = {"plan": time.monotonic() - began}
    require_device(run.device, isinstance(plan, TwoPartyPlan) and plan.scheme)
    if isinstance(plan, TwoPartyPlan) and backend == "ckks" and not settings.ray.address:
        with own_server(plan, checkpoint, settings) as own:
            outcome = remote.ask(replace(question, lines=good), own, json)
        return replace(outcome, sha256=checkpoint.sha256, complete=outcome.complete and not bad)
    local = _Run(plan, checkpoint, settings, question, good, backend, request.link, seconds)
    results, figures = local.results()
    figures["rejected"] = [{"line": line.number, "error": line.problem} for line in bad]
    with reporting(json, figures):
        show_lines(results) if question.file else show_results(results)
        show_run(figures)
    return Outcome(results, checkpoint.name, checkpoint.sha256, not bad)


@contextmanager
def own_server(plan: TwoPartyPlan, checkpoint: Checkpoint, settings: Settings) -> Iterator[Settings]:
    """Starts a two-party server on this machine, and yields the settings that ask it."""
    with listening(scheme_of(plan.scheme).server(plan, checkpoint), settings.run.threads) as address:
        target = f"{address.host}:{address.port}"
        say(
            f"no --connect: both parties run here; a server of our own listens on {target}, "
            f"certificate SHA-256 {address.fingerprint}"
        )
        network = settings.network
        others: Any = {name: getattr(network, name) for name in ("timeout", "profile", "prepared")}
        own = NetworkOptions(connect=target, fingerprint=address.fingerprint, **others)
        yield settings.model_copy(update={"network": own})


@dataclass(frozen=True)
class _Run:
    """Answers on this machine, or by machines that this one reaches, beside the float model's. link: of the
    plan request. seconds: of what is done once. more: figures of `--ray`."""

    plan: AnyPlan
    model: Checkpoint
    settings: Settings
    question: Question
    lines: Sequence[Line]
    backend: str
    link: LinkSpeed | None
    seconds: Seconds
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> list[Sequence[Line]]:
        """The lines, as many a request as the plan holds."""
        return [self.lines[at : at + self.plan.batch] for at in range(0, len(self.lines), self.plan.batch)]

    def results(self) -> tuple[list[Result], dict[str, Any]]:
        """Returns all answers, and the figures of the run."""
        run, results, groups = self.settings.run, list[Result](), self.groups
        with nullcontext(run.work) if run.work else tempfile.TemporaryDirectory(prefix="tacita-") as folder:
            files = Workdir(Path(folder))
            if run.work:
                save(self.plan, files.plan)
            how = run.threads, run.memory, run.allow_insecure
            place = Place(files.path, *how, bar=progress, device=run.device)
            with self.by_ray(place) if self.settings.ray.address else self.here(place) as answer:
                for number, group in enumerate(groups, 1):
                    title = f"request {number} of {len(groups)}, " if len(groups) > 1 else ""
                    answers, seconds = answer([line.text for line in group], title)
                    for line, each in zip(group, answers, strict=True):
                        floats = np.ravel(api.reference_logits(self.plan, self.model, line.text))
                        visible = self.question.visible(each)
                        results.append(Result(line, visible, number, seconds, tuple(floats.tolist())))
            figures = run_report(
                self.plan,
                results,
                backend=self.backend,
                seconds=self.seconds,
                sizes=_sizes(files),
                peak_rss_gb=peak_memory_gb(),
                threads=run.threads or all_threads(),
            )
        return results, figures | self.more

    @contextmanager
    def here(self, place: Place) -> Iterator[Answerer]:
        """Yields what answers a request: in the clear, or with both sides on this machine."""
        if self.backend != "ckks":
            yield self._in_the_clear
            return
        with scheme_of(self.plan.scheme).private(self.plan, self.model, place) as private:
            self.seconds.update(private.seconds)
            yield private.answer

    def _in_the_clear(self, texts: Sequence[Text], title: str) -> tuple[list[api.Answer], Seconds]:
        began, backend = time.monotonic(), self.backend
        with progress(f"{title}{backend}") as report:
            answers = api.classify_batch_locally(
                self.plan, self.model, texts, backend=backend, progress=report
            )
        return answers, {"evaluate": time.monotonic() - began}

    @contextmanager
    def by_ray(self, place: Place) -> Iterator[Answerer]:
        """Yields what answers request after request, which machines evaluate side by side; the predicted time
        stands before and beside the measured one. Raises as `spreading`."""
        groups = [[line.text for line in group] for group in self.groups]
        with spreading(self.plan, self.model, place, _where(self.settings), link=self.link) as run:
            first = run.forecast(len(groups))
            say(f"{first.words()}; {duration(first.seconds)} by prediction")
            began, answers = time.monotonic(), run.answers(groups)
            yield lambda texts, title: next(answers)
            measured = time.monotonic() - began
            self.seconds.update(run.seconds)
            wall = measured - self.seconds.get("keygen", 0.0)
            self.more["cluster"] = _cluster_figures(run, len(groups), measured)
            self.more["wall_seconds"] = wall  # this and what follows replaces sums over requests
            self.more["seconds_per_input"] = wall / len(self.lines)
            self.more["seconds_per_request"] = wall / len(groups)


def _sizes(files: Workdir) -> dict[str, int]:
    paths = {"evaluation_keys": files.evaluation_keys, "request": files.request, "response": files.response}
    return {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}


# `--ray`: requests are spread over machines.


def _require_spread(settings: Settings) -> None:
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


def _where(settings: Settings) -> Where:
    ray = settings.ray
    return where_of(ray.address or "", ray.nodes, ray.cores)


def _cluster_figures(run: Spread, requests: int, measured: float) -> dict[str, Any]:
    """Shows the time beside the prediction, and returns what the report says of the machines."""
    here, many = (run.forecast(requests, count) for count in (None, MANY))
    on = several(here.evaluators, "evaluator")
    say(
        f"on {on}: {duration(measured)} measured, {duration(here.seconds)} predicted; "
        f"{duration(many.seconds)} predicted on {MANY} such nodes"
    )
    sites = run.nodes.sites
    return {
        "nodes": len({site.node for site in sites}),
        "evaluators": min(run.evaluators, requests),
        "cores": [site.cores for site in sites],
        "measured_seconds": measured,
        "processor_seconds_per_request": sum(run.processor) / requests,
        "predicted": here.to_json(),
        "predicted_by_nodes": {n: run.forecast(requests, n).to_json() for n in NODES},
    }
