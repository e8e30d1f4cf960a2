"""Generation in one line: a prompt -> tokens, as they come.

    for token in tacita.generate("The capital of France is", model="path/to/folder"):
        print(token.text, end="")

Nothing here is encrypted: "plain" computes the model in floats, and "sim" in the integers of two parties,
whose formats, roundings and polynomials decide which token comes next there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tacita.api import Model, load
from tacita.checkpoint import Checkpoint
from tacita.errors import CheckpointError, InputError
from tacita.front.embed import Text, tokenize
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
) -> Iterator[Token]:
    """What a decoder says behind a prompt, token by token.

    max_tokens: at most so many; fewer where the model ends its text. temperature, top_k, seed: see
    `generation.choice.Choice`; by default the likeliest token is taken. stop: texts before which it ends.
    backend: "plain" or "sim". tokens: of sim, those of the prompt with its padding. texts: of sim, to
    calibrate on.

    Cost: of sim one pass over each text first. Raises InputError for a model of another task, for a prompt
    that is empty or too long, and for options that mean nothing; CheckpointError; all of it before a token.
    """
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    choice = Choice(temperature, top_k, seed)
    return started(model, prompt, Request(max_tokens, stops, choice, backend, tokens, texts))


def started(model: Model, prompt: str, asked: Request) -> Iterator[Token]:
    """See `generate`."""
    loaded = model if isinstance(model, Checkpoint) else load(model)
    require_kind("generate", loaded.config)
    ids, tokenizer = _prompt(loaded, prompt, asked), loaded.tokenizer
    if tokenizer is None:
        raise CheckpointError("generate: the model has no tokenizer", hint="load it with embeddings")
    ends = Ends(asked.max_tokens, frozenset(getattr(loaded.config, "ends", ())), asked.stop)
    return generated(_source(loaded, asked), ids, lambda found: tokenizer.decode(list(found)), ends)


def _source(model: Checkpoint, asked: Request) -> Source:
    """The model in the clear, by its backend."""
    if asked.backend == "plain":
        return Clear(model, Floats(model), asked.choice)
    plan = make_two_party_plan(model, Wish(scheme=BUMBLEBEE, tokens=asked.tokens, texts=asked.texts))
    return Clear(model, Whole(model, plan), asked.choice, plan.tokens)


def _prompt(model: Checkpoint, prompt: str, asked: Request) -> list[int]:
    """Its ids. Raises InputError where it does not fit, with all that follows, into the model's positions."""
    ids = tokenize(model, prompt)[0]
    slots = len(ids) if asked.backend == "plain" else asked.tokens
    if len(ids) > slots or slots + asked.max_tokens > model.config.positions:
        raise InputError(
            f"generate: a prompt of {len(ids)} tokens in {slots} and {asked.max_tokens} behind it, the model "
            f"has {model.config.positions} positions",
            hint="shorten the prompt, or ask for fewer tokens",
        )
    return ids
