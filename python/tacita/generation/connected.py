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
from tacita.generation.options import TextOptions, ends_of
from tacita.generation.request import ids_of, speller
from tacita.generation.source import Token, generated
from tacita.tasks.kinds import require_kind
from tacita.two_party.shares import Watch


def connected(
    client: TwoPartyClient,
    prompt: str,
    options: TextOptions,
    again: Callable[[], TwoPartyClient] | None = None,
    watch: Watch = lambda stage: None,
) -> Iterator[Token]:
    """Tokens as they come. again: connects anew where the connection breaks. watch: called as each step
    begins.

    Raises InputError before anything is sent, PeerError, RefusedError.
    """
    plan, front = client.plan, client.part.front
    require_kind("generate", plan)
    if options.choice.seed is not None:
        raise InputError("generate: a seed with a server", hint="the server draws the token")
    ids, spell = ids_of(front, prompt, begun=bool(plan.begin)), speller(front)
    padded_slots(plan, len(ids), options.max_tokens)  # or it is refused
    choice = options.choice
    source = Dictation(client, options.max_tokens, choice.temperature, choice.top_k, again, watch)
    return _told(source, generated(source, ids, spell, ends_of(plan.config, options)))


def _told(source: Dictation, tokens: Iterator[Token]) -> Iterator[Token]:
    """The same tokens. A reader that leaves after one of them ends the text at the server, too."""
    try:
        yield from tokens
    except GeneratorExit:
        _end(source)
        raise
    _end(source)


def _end(source: Dictation) -> None:
    with suppress(PeerError):  # the text is here; a server that is gone by now changes nothing
        source.end()
