"""`tacita demo-service` runs a server and two clients here, one by ciphertexts and one by two parties."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacita.cli.console import duration, out, progress, size
from tacita.cli.options import TOKENS_DEFAULT, taking
from tacita.cli.settings import Line
from tacita.extras import needing
from tacita.plans.scheme import BUMBLEBEE
from tacita.settings import Settings

if TYPE_CHECKING:
    from tacita.cli.service.started import Started

TEXTS = {"thor": "a film of quiet beauty", BUMBLEBEE: "a waste of time"}
Text = Annotated[str | None, typer.Option("--text", help="What both clients ask.", show_default=False)]


@taking({"plan": ("tokens", "preset"), "run": ("allow_insecure",)})
def run(settings: Settings, text: Text = None) -> None:
    """Start a server, ask it by both of its schemes, and stop it."""
    allow_insecure, tokens = settings.run.allow_insecure, settings.plan.tokens or TOKENS_DEFAULT
    with needing("service", "demo-service"), needing("client", "demo-service"):
        from tacita.cli.service.started import started
    options = ["--schemes", ",".join(TEXTS), "--tokens", str(tokens)]
    more: Line = {"plan": {"preset": settings.plan.preset}, "run": {"allow_insecure": allow_insecure}}
    with tempfile.TemporaryDirectory(prefix="tacita-service-") as name:
        folder = Path(name)
        with (folder / "log").open("w") as log, started(folder, *options, settings=more, log=log) as server:
            for line in server.said:
                out.print(line, soft_wrap=True)
            for scheme, usual in TEXTS.items():
                _ask(server, scheme, text or usual, folder / scheme, insecure=allow_insecure)
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
    out.print(f"{scheme}: {text!r} is {answer.label or answer.summary}; {took}{sent}", soft_wrap=True)
