"""Asks a server that does not see the texts: a service by its URL, whatever the scheme, or a two-party server
by its port. Shows each answer and what it cost, and reports all."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tacita.cli.columns import Line, admitted
from tacita.cli.console import duration, progress, reporting, say, several, shown, size, warn, write_report
from tacita.cli.options import Without
from tacita.cli.report import Outcome, Result, brackets, summary_of, text_of
from tacita.cli.service.port import (
    cost_line,
    dial_server,
    open_client,
    prepare_ahead,
    show_profile,
    watching,
)
from tacita.client.calls import Cost, Meter
from tacita.client.connect import How, connect
from tacita.client.connected import RenewableSession
from tacita.client.http.trust import is_url
from tacita.data import DEFAULT_MODEL
from tacita.errors import InputError, TacitaError
from tacita.plans.commitment import link_of
from tacita.plans.scheme import AUTO, BUMBLEBEE, PlanHeader
from tacita.plans.wire import Offer
from tacita.resources import peak_memory_gb
from tacita.settings import Settings
from tacita.texts.answer import Answer
from tacita.texts.embedding import Embedder
from tacita.texts.inputs import windows
from tacita.texts.task import require_kind

if TYPE_CHECKING:
    from tacita.client.blocking import Service
    from tacita.client.service import Session

VARIABLE = "TACITA_TOKEN"  # holds the token where no file does; never the command line, which others can read
MOST = 4096  # bytes of a token
OF_A_PORT = ("name", "certificate", "key", "insecure_plain_tcp", "profile")  # settings
# settings of a server that only a file has
NETWORK = (*OF_A_PORT, "fingerprint", "timeout", "token_file")
# options that a server decides: of any, and of a port, which has one model and one scheme
CONNECTED = Without(
    ("tokens", "preset", "texts", "backend", "begin", "reveal"),
    lambda settings, _: settings.network.connect,
    "with --connect: the server decides",
)
AT_A_PORT = Without(
    ("model", "scheme", "cache"),
    lambda settings, _: not is_url(settings.network.connect or "https://"),
    "with --connect HOST:PORT: it has one model, by two parties",
)


@dataclass(frozen=True)
class Question:
    """The texts of a command. verb: the command, a key of `texts.task.GIVES`. file: where the lines are from,
    if from one. others: kinds of models that the command takes besides its own. suits: called with the
    model's name and sha256 (empty for a server's) before anything is asked, to refuse it. read: makes of a
    decrypted answer the one that is shown. show_anyway: shows answers that failed their checks, too.
    """

    verb: str
    lines: Sequence[Line]
    file: Path | None = None
    others: tuple[str, ...] = ()
    suits: Callable[[str, str], None] = lambda name, sha256: None
    read: Callable[[Answer], Answer] = lambda answer: answer
    show_anyway: bool = False

    def visible(self, answer: Answer) -> Answer:
        """Returns the answer as it may be shown: whole with `show_anyway`, even where checks failed."""
        return self.read(answer.anyway if self.show_anyway else answer)

    def windows(self, front: Embedder, tokens: int) -> Sequence[Line]:
        """Returns the lines; of a question whose context is too long a line for each window of it, and says
        what that costs. Raises InputError."""
        if self.verb != "answer":
            return self.lines
        each = [(line, window) for line in self.lines for window in windows(front, line.text, tokens)]
        if len(each) > len(self.lines):
            say(f"the context takes {len(each)} windows of up to {tokens} tokens, each at the cost of a text")
        return [replace(line, text=window.text, first=line.first + window.first) for line, window in each]


def ask(question: Question, settings: Settings, json: Path | None) -> Outcome:
    """Asks every text of the server that the settings name and shows what it cost. When the session breaks,
    the answers that came are reported before the error goes on. Raises InputError for a model of another
    kind, and what the server does not offer."""
    began, results = time.monotonic(), list[Result]()
    session = _by_service if is_service(settings) else _by_port
    with session(question, settings) as remote:
        plan = remote.plan
        question.suits(plan.name, "")
        good, bad = admitted(
            remote.front, plan.tokens, question.windows(remote.front, plan.tokens), question.file
        )
        try:
            _answer_all(remote, question, good, results)
        except (TacitaError, KeyboardInterrupt):
            if results:
                rest = [line.number for line in good[len(results) :]]
                write_report(json, {**_report(remote, results, began), "unanswered": rest})
            raise
    figures = _report(remote, results, began)
    figures["rejected"] = [line.number for line in bad]
    with reporting(json, figures):
        remote.show_cost(figures)
    return Outcome(results, plan.name, "", not bad)


def _answer_all(remote: Remote, question: Question, lines: Sequence[Line], results: list[Result]) -> None:
    batch = remote.plan.batch
    groups = [lines[at : at + batch] for at in range(0, len(lines), batch)]
    for number, group in enumerate(groups, 1):
        title = f"request {number} of {len(groups)}" if len(groups) > 1 else "request"
        remote.prepare(len(lines) - len(results))
        for result in remote.answer(group, number, title):
            results.append(replace(result, answer=question.visible(result.answer)))
            _show(results[-1])


def _show(result: Result) -> None:
    answer = result.answer
    say(f"[bold]{summary_of(answer)}[/bold]{brackets(answer)}  {text_of(result.line.text)}")
    if result.cost:
        say(f"  {cost_line(result.cost, sum(result.seconds.values()))}")
    for warning in answer.warnings:
        warn(f"{shown(warning)}")


def _report(remote: Remote, results: Sequence[Result], began: float) -> dict[str, Any]:
    plan = remote.plan
    return {
        "scheme": plan.scheme,
        "model": plan.name,
        "tokens": plan.tokens,
        "plan_hash": plan.hash,
        "encrypted": True,
        "inputs": len(results),
        "requests": len({result.request for result in results}),
        "texts_per_request": plan.batch,
        "results": [_row(result) for result in results],
        "seconds": time.monotonic() - began,
        **remote.figures(results),
        "peak_rss_gb": peak_memory_gb(),
    }


def _row(result: Result) -> dict[str, Any]:
    return {
        "line": result.line.number,
        "request": result.request,
        **result.answer.to_json(),
        "seconds": sum(result.seconds.values()),
        "steps": dict(result.seconds),
        **result.cost,
    }


# Sessions with one plan of a server. answer: answers the lines of one request. figures: what the report says
# of the session so far. show_cost: shows what all cost.


@dataclass
class _Port:
    """A two-party server, by its port."""

    session: RenewableSession
    profile: bool
    prepared: int = 0  # texts
    last: Mapping[str, float] = field(default_factory=dict)  # seconds of the last text, by step
    before: Counter[str] = field(default_factory=Counter)  # what was prepared took

    @property
    def plan(self) -> PlanHeader:
        return self.session.plan

    @property
    def front(self) -> Embedder:
        return self.session.part.front

    def answer(self, lines: Sequence[Line], number: int, title: str) -> list[Result]:
        (line,), before = lines, self.session.cost
        with watching(self.session.plan, title, self.last) as watch:
            answer = self.session.classify(line.text, watch)
        self.last = watch.seconds
        cost = {name: int(value - before[name]) for name, value in self.session.cost.items()}
        return [Result(line, answer, number, watch.seconds, cost=cost)]

    def prepare(self, texts: int) -> None:
        """Prepares for so many texts at most where none is prepared."""
        if not self.session.ready:
            self.before.update(prepare_ahead(self.session, min(self.prepared, texts)))

    def figures(self, results: Sequence[Result]) -> dict[str, Any]:
        """Returns bytes and rounds of the session; with products that were prepared, what came before the
        texts and after them apart, and their sum."""
        cost = {name: int(value) for name, value in self.session.cost.items()}
        after = Counter[str]()
        for result in results:
            after.update({"texts": 1, "seconds": sum(result.seconds.values()), **result.cost})
        parts = {"before": self.before, "after": after, "together": self.before + after}
        parts["together"]["texts"] = after["texts"]
        apart = {name: dict(part) for name, part in parts.items()} if self.before else {}
        return {**cost, **apart, "profile": self.session.profile()}

    def show_cost(self, figures: Mapping[str, Any]) -> None:
        for name, words in (
            ("before", "before the texts"),
            ("after", "after them"),
            ("together", "together"),
        ):
            if part := figures.get(name):
                say(f"{words}: {cost_line(part, part['seconds'])}")
        say(f"session: {cost_line(figures, figures['seconds'])}")
        if self.profile:
            show_profile(figures["profile"])


@contextmanager
def _by_port(question: Question, settings: Settings) -> Iterator[_Port]:
    greet = partial(open_client, link=settings.plan.link)
    session = RenewableSession(lambda: dial_server(settings), greet)
    try:
        require_kind(question.verb, session.plan, *question.others)
        yield _Port(session, settings.network.profile, settings.network.prepared)
        session.hang_up(politely=True)
    finally:
        session.close()


# A service, by its URL


def is_service(settings: Settings) -> bool:
    """Tells whether `[network] connect` names a service, not a port. Raises InputError for settings that are
    for the other kind of server."""
    network, scheme = settings.network, settings.plan.scheme
    if not is_url(network.connect or ""):
        if scheme not in (None, AUTO, BUMBLEBEE):
            raise InputError(f"[plan] scheme {scheme} at a port", hint=f"it has {BUMBLEBEE} alone")
        return False
    for name in OF_A_PORT:
        if getattr(network, name):
            raise InputError(f"[network] {name} is for --connect HOST:PORT", hint="leave it out")
    return True


def service_of(settings: Settings) -> Service:
    """Makes the client of the service that the settings name; nothing is sent yet. Raises InputError."""
    return connect(settings.network.connect or "", **how_of(settings))


def how_of(settings: Settings) -> How:
    """Returns the keywords of a connection to the service that the settings name. Raises InputError."""
    network, run, link = settings.network, settings.run, settings.plan.link
    return {
        "token": token_of(network.token_file),
        "trust": network.trust,
        "fingerprint": network.fingerprint,
        "timeout": network.timeout,
        "prepared": network.prepared,
        "link": link_of(link) if link else None,
        "threads": run.threads,
        "allow_insecure": run.allow_insecure,
    }


def token_of(path: Path | None) -> str | None:
    """Returns the token of the file or the environment, or None. Raises InputError, which does not repeat
    what the file holds."""
    if path is None:
        return os.environ.get(VARIABLE, "").strip() or None
    try:
        with path.open("rb") as file:
            token = file.read(MOST + 1).decode("ascii").strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", hint="a file with a token") from None
    except UnicodeDecodeError:
        token = ""
    if not token or len(token) > MOST or not token.isprintable() or " " in token:
        raise InputError(f"{path}: holds no token", hint="one line, as the operator gave it")
    return token


@dataclass
class _Service:
    service: Service
    session: Session
    opening: Cost
    costs: dict[int, Cost] = field(default_factory=dict)  # by request

    @property
    def plan(self) -> PlanHeader:
        return self.session.plan

    @property
    def front(self) -> Embedder:
        if self.session.front is None:
            raise InputError("the model starts from hidden states", hint="ask it from Python")
        return self.session.front

    def answer(self, lines: Sequence[Line], number: int, title: str) -> list[Result]:
        meter = Meter()
        with progress(title) as bar:
            texts = [line.text for line in lines]
            answers = self.service.run(self.session.answer(texts, meter, bar))
        self.costs[number] = meter.cost
        steps = meter.cost.seconds
        return [Result(line, answer, number, steps) for line, answer in zip(lines, answers, strict=True)]

    def prepare(self, texts: int) -> None:
        """Does nothing: a session of a service prepares by itself, while nobody waits."""

    def figures(self, results: Sequence[Result]) -> dict[str, Any]:
        """Bytes and seconds of steps are sums over all requests and what came before them."""
        costs = [self.opening, *self.costs.values()]
        steps = dict.fromkeys(step for cost in costs for step in cost.seconds)
        return {
            "steps": {step: sum(cost.seconds.get(step, 0.0) for cost in costs) for step in steps},
            "bytes_sent": sum(cost.sent for cost in costs),
            "bytes_received": sum(cost.received for cost in costs),
        }

    def show_cost(self, figures: Mapping[str, Any]) -> None:
        steps = ", ".join(f"{step} {duration(seconds)}" for step, seconds in figures["steps"].items())
        sent, received = size(figures["bytes_sent"]), size(figures["bytes_received"])
        took = f"{duration(figures['seconds'])} ({steps})"
        say(f"all: {took}, {sent} sent, {received} received")


Remote: TypeAlias = _Port | _Service


@contextmanager
def _by_service(question: Question, settings: Settings) -> Iterator[_Service]:
    """Opens a session and shows its plan and what a request will take."""
    with service_of(settings) as service:
        verbs, meter = [question.verb, *question.others], Meter()
        model, scheme = named(service, settings.plan.model), settings.plan.scheme
        session = open_session(service, verbs, model, scheme, meter, len(question.lines))
        say(expectation(session.offer, "request"))
        yield _Service(service, session, meter.cost)


def expectation(offer: Offer, what: str) -> str:
    """Describes what an answer, or a token of a text, will take. what: that a request is."""
    sent = size(offer.traffic_bytes or offer.request_bytes + offer.response_bytes)
    keys = f", and {size(offer.keys_bytes)} of keys, made and sent once" if offer.keys_bytes else ""
    return f"expected: {duration(offer.seconds)} and {sent} a {what}{keys}"


def named(service: Service, model: Path | None) -> str | None:
    """Returns the model to ask for: None where none is named and the service has not the package's."""
    if model is not None:
        return str(model)
    offered = {each.name for each in service.models().models}
    return DEFAULT_MODEL.name if DEFAULT_MODEL.name in offered else None


def open_session(
    service: Service,
    verbs: Sequence[str],
    model: str | None,
    scheme: str | None,
    meter: Meter,
    texts: int = 1,
    tokens: int = 1,
    cache: bool = False,
) -> Session:
    """Opens a session and shows its plan."""
    session = service.open(verbs, model, scheme, meter, texts, tokens, cache)
    plan, bits = session.plan, session.offer.security_bits
    secure = f", {bits} bits" if bits else ""
    say(
        f"{shown(plan.name)}: {plan.scheme}, {plan.tokens} tokens, {several(plan.batch, 'text')} a request"
        f"{secure}; plan {plan.hash[:12]}"
    )
    return session
