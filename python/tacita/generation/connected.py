"""A text that a server writes: the prompt stays with the client, the model with the server.

with dial("host", 7007, fingerprint=...) as party:
    client = TwoPartyClient(party, PublicCache())
    for token in tacita.generate("The capital of France is", model=client, max_tokens=8):
        print(token.text, end="")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from tacita.client.dictation import Dictation, padded_slots
from tacita.client.two_party import TwoPartyClient
from tacita.errors import InputError, PeerError
from tacita.generation.request import Request, ends_of, ids_of, speller
from tacita.generation.source import Token, generated
from tacita.tasks.kinds import require_kind
from tacita.two_party.shares import Watch


def connected(
    client: TwoPartyClient,
    prompt: str,
    asked: Request,
    again: Callable[[], TwoPartyClient] | None = None,
    watch: Watch = lambda stage: None,
) -> Iterator[Token]:
    """Tokens as they come. again: connects anew where the connection breaks. watch: called as each step
    begins.

    Raises InputError before anything is sent, PeerError, RefusedError.
    """
    plan, front = client.plan, client.part.front
    require_kind("generate", plan)
    _require_plain(asked)
    ids, spell = ids_of(front, prompt, begun=bool(plan.begin)), speller(front)
    padded_slots(plan, len(ids), asked.max_tokens)  # or it is refused
    choice = asked.choice
    source = Dictation(client, asked.max_tokens, choice.temperature, choice.top_k, again, watch)
    return _told(source, generated(source, ids, spell, ends_of(plan.config, asked)))


def _told(source: Dictation, tokens: Iterator[Token]) -> Iterator[Token]:
    yield from tokens
    with suppress(PeerError):  # the text is here; a server that is gone by now changes nothing
        source.end()


def _require_plain(asked: Request) -> None:
    """Raises InputError for what the server does not do, or has decided."""
    if asked.choice.seed is not None:
        raise InputError("generate: a seed with a server", hint="the server draws the token")
    if asked.backend != "plain" or asked.begin or asked.texts is not None or asked.scheme is not None:
        raise InputError(
            "generate: a backend, a scheme, a beginning or texts with a server",
            hint="leave them to the server",
        )
