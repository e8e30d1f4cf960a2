"""Generation in one line: a prompt -> tokens, as they come.

    for token in tacita.generate("Emma could not", model="path/to/folder"):  # default: a model of Jane Austen
        print(token.text, end="")

Without a scheme nothing is encrypted: "plain" computes the model in floats, and "sim" in the integers of two
parties, whose formats, roundings and polynomials decide which token comes next there. With scheme "thor" a
circuit on ciphertexts gives each token: on "ckks" really, on "sim" and "plain" with and without its noise.

Many texts at once, a request of ciphertexts for all that they go on with next:

    for number, token in generate_batch("austen-tiny", ["Emma could", "They were"], Request(scheme="arion")):
        texts[number] += token.text
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path

from tacita.api import Model, choose_plan, load
from tacita.checkpoint import Checkpoint
from tacita.checkpoint.beginning import behind
from tacita.data import DEFAULT_DECODER
from tacita.errors import InputError
from tacita.generation.sources import Floats, Integers, asking
from tacita.planning.calibrate.calibrate import texts_for
from tacita.planning.circuit import has_functions
from tacita.planning.options import CACHING, GAP, LOGITS, TOKEN
from tacita.planning.request import PlanRequest
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.prices.cost import Prices
from tacita.plans.scheme import BUMBLEBEE, SCHEMES
from tacita.schemes.base import (
    Place,
    Report,
    cost_of,
    no_bar,
    require_allowed,
    save,
    silent,
    warn_unprotected,
)
from tacita.texts.embed import Text, tokenize
from tacita.texts.generation import (
    TOKENS,
    Choice,
    Local,
    Source,
    TextOptions,
    Token,
    TokenRequests,
    Writing,
    ends_of,
    only,
    prompt_of,
    side_by_side,
    speller,
    stop_texts,
    withhold,
)
from tacita.texts.task import require_kind
from tacita.two_party.client import TwoPartyClient, connected, padded_slots
from tacita.two_party.planning import make_two_party_plan

BACKENDS = ("plain", "sim", "ckks")
ROOM = 128  # tokens that a text may have
PLACE = ("device", "threads", "memory", "work")  # of a request: where its ciphertexts are evaluated


@dataclass(frozen=True)
class Request(TextOptions):
    """What is generated, however: see `generate`. texts: of calibration, None for the model's own or the
    package's. scheme: on ciphertexts, one of `SCHEMES`, or None for the model in the clear. prices: of what
    ciphertexts will take, see `PlanRequest`. reveal, gap: what the client of ciphertexts gets, see
    `PlanRequest`; None for logits. device, threads, memory: of what evaluates ciphertexts (`Place`). work:
    folder of their plan, keys and files, None for a temporary one; a plan and keys that it has are used.
    functions, packing: of a plan on ciphertexts, see `PlanRequest`."""

    backend: str = "plain"
    tokens: int = ROOM
    texts: Sequence[Text] | None = None
    begin: str = ""
    scheme: str | None = None
    preset: str = "n16"
    allow_insecure: bool = False
    prices: Prices | None = field(default=None, hash=False)
    reveal: str | None = None
    gap: float = GAP
    device: str = "cpu"
    threads: int = 0
    memory: float = Place.memory
    functions: str = "tacita"
    packing: str | None = None
    work: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backend not in BACKENDS:
            raise InputError(f"generate: backend {self.backend!r}", hint=f"supported: {', '.join(BACKENDS)}")
        if self.scheme not in (None, BUMBLEBEE, *SCHEMES):
            names = ", ".join((*SCHEMES, BUMBLEBEE))
            raise InputError(f"generate: scheme {self.scheme!r:.40}", hint=f"one of {names}")
        if self.backend == "ckks" and not self.on_ciphertexts:
            raise InputError(
                "generate: backend ckks without ciphertexts", hint="--scheme thor; two parties by --connect"
            )
        if self.cache and self.scheme != CACHING:
            named = f"scheme {self.scheme}" if self.on_ciphertexts else "no ciphertexts"
            hint = f"--scheme {CACHING}; floats and two parties keep rows anyway"
            raise InputError(f"generate: a cache with {named}", hint=hint)
        self._require_revealed()

    def _require_revealed(self) -> None:
        if self.reveal and not self.on_ciphertexts:
            hint = "a scheme on ciphertexts; of two parties the client gets the token alone"
            raise InputError(f"generate: what to reveal without ciphertexts, {self.reveal!r:.40}", hint=hint)
        if self.reveal == TOKEN:
            self.choice.require_likeliest()

    @property
    def on_ciphertexts(self) -> bool:
        """Whether a circuit on ciphertexts gives the tokens, on one of its backends."""
        return self.scheme in SCHEMES


@dataclass(frozen=True)
class Shown:
    """Callbacks that report on generation on ciphertexts. plan: progress of planning. cost: called once, with
    what all tokens will take. bar: opens a progress bar for a step by its title (`schemes.base.Place`)."""

    plan: Report = silent
    cost: Report = silent
    bar: Callable[[str], AbstractContextManager[Report]] = no_bar


SILENT = Shown()


def generate(
    prompt: str,
    *,
    model: Model | TwoPartyClient | None = None,
    max_tokens: int = TOKENS,
    temperature: float = 0.0,
    top_k: int = 0,
    stop: Sequence[str] = (),
    seed: int | None = None,
    backend: str | None = None,
    tokens: int = ROOM,
    texts: Sequence[Text] | None = None,
    begin: str = "",
    scheme: str | None = None,
    preset: str = "n16",
    allow_insecure: bool = False,
    reveal: str | None = None,
    gap: float = GAP,
    cache: bool = False,
    show_anyway: bool = False,
) -> Iterator[Token]:
    """What a decoder says behind a prompt, token by token.

    max_tokens: at most so many; fewer where the model ends its text. temperature, top_k, seed: see
    `texts.generation.Choice`; by default the likeliest token is taken. stop: texts before which it ends.
    backend: "plain" (default, with a `PrivacyWarning`), "sim" or, with a scheme on ciphertexts, "ckks", which
    alone encrypts. scheme: "thor" or "leaf", for many texts "arion" or "moai" (`generate_batch`), or None for
    the model in the clear. preset, allow_insecure: of ciphertexts, as of `tacita.classify`. tokens: of a
    plan, those that the whole text may have, with a scheme on ciphertexts a power of two. texts: of a plan,
    to calibrate on. begin: a text before the prompt that is no secret: two parties compute nothing for it on
    shares (`PlanRequest.begin`), and on ciphertexts its values need no room (`checkpoint.beginning`). reveal:
    of ciphertexts, "logits" (the default) or "token": the client then learns the likeliest token and no
    logits, and logits nearer than `gap` are not told apart. cache: of scheme "thor", the server keeps what it
    computed of earlier rows as ciphertexts, and a request is one row (docs/decisions/0038). show_anyway:
    tokens that are not `sound`, too, in place of PlanError at the first.
    model: a folder, the name of a shipped model (default: austen-tiny), a checkpoint, or a client of a server
    that has it; then temperatures go up to 8, there is no seed, and the server has decided on the rest.

    Cost: of sim one pass over each text first. Raises InputError for a model of another task, for a prompt
    that is empty or too long, and for options that mean nothing; CheckpointError; all of it before a token.
    """
    if backend is None and not isinstance(model, TwoPartyClient):
        warn_unprotected("generate", "plain", 3)
    backend = backend or "plain"
    request = Request(
        max_tokens,
        stop_texts(stop),
        Choice(temperature, top_k, seed),
        backend,
        tokens,
        texts,
        begin,
        scheme,
        preset,
        allow_insecure,
        reveal=reveal,
        gap=gap,
        cache=cache,
        show_anyway=show_anyway,
    )
    if isinstance(model, TwoPartyClient):
        _require_plain(request)
        return connected(model, prompt, request)
    return started(DEFAULT_DECODER if model is None else model, prompt, request)


def _require_plain(request: Request) -> None:
    """Raises InputError for what a server has decided."""
    if request.backend != "plain" or request.begin or request.texts is not None or request.scheme is not None:
        raise InputError(
            "generate: a backend, a scheme, a beginning or texts with a server",
            hint="leave them to the server",
        )


def started(model: Model, prompt: str, request: Request, shown: Shown = SILENT) -> Iterator[Token]:
    """Generates as `generate` does, by options in a `Request`. shown: callbacks for a scheme on
    ciphertexts."""
    return only(generate_batch(model, [prompt], request, shown), request)


def generate_batch(
    model: Model, prompts: Sequence[str], request: Request, shown: Shown = SILENT
) -> Iterator[tuple[int, Token]]:
    """Goes on behind each of several prompts, side by side: yields the number of a text, from 0, and its next
    token. A text ends at a token that is not sound, which is withheld, unless the request has `show_anyway`.

    On ciphertexts all texts share requests, each as many as the plan holds. The choice of each text is drawn
    as if it were alone. Errors and cost: of `generate`.
    """
    loaded = model if isinstance(model, Checkpoint) else load(model)
    require_kind("generate", loaded.config)
    begin = tokenize(loaded, request.begin, special=False)[0] if request.begin else []
    ids = [_prompt(loaded, prompt, request, len(begin)) for prompt in prompts]
    if not ids:
        raise InputError("generate: no prompts", hint="at least one")
    spell, ends = speller(loaded), ends_of(loaded.config, request)
    if request.on_ciphertexts:
        ids = [[*begin, *each] for each in ids]
        if begin:
            calibration = texts_for(loaded) if request.texts is None else request.texts
            loaded, calibration = behind(loaded, request.begin, calibration)
            request = replace(request, texts=calibration)
        texts = [Writing(each, spell, ends) for each in ids]
        plan = _make_plan(loaded, request, shown, ids)
        return _encrypted(plan, loaded, texts, request, shown)
    writings = [Writing(each, spell, ends) for each in ids]
    sources = [_source(loaded, request, begin, len(each)) for each in ids]
    turns = side_by_side(list(zip(sources, writings, strict=True)), unsound=request.show_anyway)
    return ((number, withhold(token, request)) for number, token in turns)


def _make_plan(model: Checkpoint, request: Request, shown: Shown, prompts: Sequence[Sequence[int]]) -> Plan:
    """Makes the plan for ciphertexts and prompts, and reports what all tokens will cost."""
    plan_request = PlanRequest(
        scheme=request.scheme,
        tokens=request.tokens,
        inputs=len(prompts),
        texts=request.texts,
        preset=request.preset,
        prices=request.prices,
        reveal=request.reveal or LOGITS,
        gap=request.gap,
        cache=request.cache,
        functions=request.functions,
        packing=request.packing,
    )
    require_allowed(plan_request, request.backend, allow_insecure=request.allow_insecure)
    at_hand = _plan_at_hand(model, request, plan_request)
    plan = at_hand or choose_plan(model, plan_request, progress=shown.plan).plan
    assert isinstance(plan, Plan)  # of a scheme on ciphertexts
    if request.work:
        save(plan, Workdir(request.work).plan)
    if plan.kept and len(prompts) > plan.batch:
        hint = f"one by one, or --tokens and a file that fit: this plan has {plan.batch} places"
        raise InputError(f"generate: a cache for {len(prompts)} prompts", hint=hint)
    read = max(map(len, prompts)) - 1 if request.cache else 0  # rows, one by one, before the first token
    shown.cost(cost_of(plan, ceil(len(prompts) / plan.batch) * (read + request.max_tokens)))
    return plan


def _plan_at_hand(model: Checkpoint, request: Request, plan_request: PlanRequest) -> Plan | None:
    """Returns the plan of the work folder, if it has one. Raises FileError, and InputError for a plan of
    something else, or with other functions than are named: another model's is refused where its circuit is
    built."""
    if request.work is None or not (path := Workdir(request.work).plan).is_file():
        return None
    plan = Plan.load(path)
    has = {"scheme": plan.scheme, "tokens": plan.tokens, "preset": plan.parameters.preset}
    has |= {"cache": bool(plan.kept), "reveal": TOKEN if plan.gap else LOGITS}
    has |= {"gap": plan.gap or request.gap, "packing": plan.packing if request.packing else None}
    wanted = {name: getattr(request, name) for name in has} | {"reveal": request.reveal or LOGITS}
    hint = "ask for what the plan is of, or name another folder"
    if other := next((name for name in has if has[name] != wanted[name]), None):
        what = f"{other} {wanted[other]} by the plan of the work folder, whose {other} is {has[other]}"
        raise InputError(f"generate: {what}", hint=hint)
    if request.functions != Request.functions and not has_functions(plan, model, plan_request.variants):
        what = f"functions {request.functions} by the plan of the work folder, which has others"
        raise InputError(f"generate: {what}", hint=hint)
    return plan


def _encrypted(
    plan: Plan, model: Checkpoint, texts: Sequence[Writing], request: Request, shown: Shown
) -> Iterator[tuple[int, Token]]:
    """Yields tokens from ciphertexts. Keys are made when the first token is asked for and deleted after the
    last; those of a work folder stay there."""
    options = {name: getattr(request, name) for name in PLACE} | {"keep_key": request.work is not None}
    options |= {"allow_insecure": request.allow_insecure, "bar": shown.bar}
    with asking(plan, model, request.backend, len(texts), **options) as ask:
        requests = TokenRequests(model, plan.batch, kept=request.cache)

        def prepare(unread: Mapping[int, Sequence[int]]) -> None:
            for numbers, states in requests.of(unread):
                requests.take(numbers, ask(states))

        sources = [requests.source(n, request.choice, plan.logit_step) for n in range(len(texts))]
        turns = list(zip(sources, texts, strict=True))
        for number, token in side_by_side(turns, prepare, unsound=request.show_anyway):
            yield number, withhold(token, request)


def _source(model: Checkpoint, request: Request, begin: Sequence[int], count: int) -> Source:
    """Returns the model in the clear, by its backend, for a prompt of `count` tokens."""
    if request.backend == "plain":
        return Local(Floats(model, begin).logits, request.choice)
    plan_request = PlanRequest(
        scheme=BUMBLEBEE, tokens=request.tokens, texts=request.texts, begin=request.begin
    )
    plan = make_two_party_plan(model, plan_request)
    slots = padded_slots(plan.program, count, request.max_tokens)
    return Local(Integers(model, plan, slots).logits, request.choice)


def _prompt(model: Checkpoint, prompt: str, request: Request, before: int) -> list[int]:
    """Returns the prompt's token ids. Raises InputError where it does not fit, with all that follows, into
    the model's positions, or into what is planned."""
    floats = request.backend == "plain" and not request.on_ciphertexts
    planned = request.tokens + (0 if request.on_ciphertexts else before)
    room = model.config.positions if floats else min(planned, model.config.positions)
    return prompt_of(model, prompt, request.max_tokens, room, before=before)
