"""Generation in one line: a prompt -> tokens, as they come.

    for token in tacita.generate("The capital of France is", model="path/to/folder"):
        print(token.text, end="")

Nothing here is encrypted: "plain" computes the model in floats, and "sim" in the integers of two parties,
whose formats, roundings and polynomials decide which token comes next there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacita.api import Model, load
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, InputError
from tacita.front.embed import Text, tokenize
from tacita.front.front import Embedder
from tacita.generation.choice import Choice
from tacita.generation.clear import Clear, Floats, Whole
from tacita.generation.source import Ends, Source, Token, generated
from tacita.planning.two_party import make_two_party_plan
from tacita.planning.wish import Wish
from tacita.plans.scheme import BUMBLEBEE
from tacita.tasks.kinds import require_kind

BACKENDS = ("plain", "sim")
TOKENS = 64


@dataclass(frozen=True)
class Request:
    """What is generated, however: see `generate`. texts: of calibration, None for those of the package."""

    max_tokens: int = TOKENS
    stop: tuple[str, ...] = ()
    choice: Choice = field(default_factory=Choice)
    backend: str = "plain"
    tokens: int = TOKENS
    texts: Sequence[Text] | None = None
    begin: str = ""

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or not all(self.stop):
            raise InputError(
                f"generate: {self.max_tokens} tokens, stop texts {list(self.stop)!r:.80}",
                hint="at least one token, and texts that are not empty",
            )
        if self.backend not in BACKENDS:
            raise InputError(f"generate: backend {self.backend!r}", hint=f"supported: {', '.join(BACKENDS)}")


def generate(
    prompt: str,
    *,
    model: Model,
    max_tokens: int = TOKENS,
    temperature: float = 0.0,
    top_k: int = 0,
    stop: Sequence[str] = (),
    seed: int | None = None,
    backend: str = "plain",
    tokens: int = TOKENS,
    texts: Sequence[Text] | None = None,
    begin: str = "",
) -> Iterator[Token]:
    """What a decoder says behind a prompt, token by token.

    max_tokens: at most so many; fewer where the model ends its text. temperature, top_k, seed: see
    `generation.choice.Choice`; by default the likeliest token is taken. stop: texts before which it ends.
    backend: "plain" or "sim". tokens: of sim, those of the prompt with its padding. texts: of sim, to
    calibrate on. begin: a text before the prompt that is no secret, for which nothing is computed on shares
    (`Wish.begin`).

    Cost: of sim one pass over each text first. Raises InputError for a model of another task, for a prompt
    that is empty or too long, and for options that mean nothing; CheckpointError; all of it before a token.
    """
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    choice = Choice(temperature, top_k, seed)
    return started(model, prompt, Request(max_tokens, stops, choice, backend, tokens, texts, begin))


def started(model: Model, prompt: str, asked: Request) -> Iterator[Token]:
    """See `generate`."""
    loaded = model if isinstance(model, Checkpoint) else load(model)
    require_kind("generate", loaded.config)
    begin = tokenize(loaded, asked.begin, special=False)[0] if asked.begin else []
    ids, spell = _prompt(loaded, prompt, asked, len(begin)), speller(loaded)
    return generated(_source(loaded, asked, begin), ids, spell, ends_of(loaded.config, asked))


def ids_of(front: Embedder, prompt: str, *, begun: bool) -> list[int]:
    """A prompt's tokens, without those that the tokenizer adds where they stand behind a beginning. Raises
    InputError, CheckpointError."""
    return tokenize(front, prompt, special=not begun)[0]


def speller(front: Embedder) -> Callable[[Sequence[int]], str]:
    """Tokens -> their text. Raises CheckpointError where there is no tokenizer."""
    tokenizer = front.tokenizer
    if tokenizer is None:
        raise CheckpointError("generate: the model has no tokenizer", hint="load it with embeddings")
    return lambda found: str(tokenizer.decode(list(found)))


def ends_of(config: Any, asked: Request) -> Ends:
    """What ends a text: what was asked for, and the tokens of the model's folder."""
    return Ends(asked.max_tokens, frozenset(getattr(config, "ends", ())), asked.stop)


def _source(model: Checkpoint, asked: Request, begin: Sequence[int]) -> Source:
    """The model in the clear, by its backend."""
    if asked.backend == "plain":
        return Clear(model, Floats(model), asked.choice, begin)
    wish = Wish(scheme=BUMBLEBEE, tokens=asked.tokens, texts=asked.texts, begin=asked.begin)
    plan = make_two_party_plan(model, wish)
    return Clear(model, Whole(model, plan), asked.choice, plan.begin, plan.tokens)


def _prompt(model: Checkpoint, prompt: str, asked: Request, before: int) -> list[int]:
    """Its ids. Raises InputError where it does not fit, with all that follows, into the model's positions."""
    ids = ids_of(model, prompt, begun=before > 0)
    slots = len(ids) if asked.backend == "plain" else asked.tokens
    if len(ids) > slots or before + slots + asked.max_tokens > model.config.positions:
        raise InputError(
            f"generate: a prompt of {len(ids)} tokens in {slots}, {before} before and {asked.max_tokens} "
            f"behind it, the model has {model.config.positions} positions",
            hint="shorten the prompt, or ask for fewer tokens",
        )
    return ids
