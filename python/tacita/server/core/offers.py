"""What a service offers: the plans of its models, made once and kept, and what clients are told of them.

A plan is kept in the data folder because its hash must not change: clients' keys belong to it. It is made
again when the model or the plan request is another, or when this release cannot read it or build its circuit;
then clients make new keys (decision 65).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tacita import api
from tacita.checkpoint import Checkpoint
from tacita.errors import InputError, TacitaError
from tacita.evaluate.kept import kept_bytes
from tacita.planning.circuit import circuit_of
from tacita.planning.options import CACHING
from tacita.planning.request import PlanRequest
from tacita.plans import engine, wire
from tacita.plans.envelope import most_bytes
from tacita.plans.files import Workdir, write_text
from tacita.plans.plan import Plan
from tacita.plans.prices.formulas import file_bytes
from tacita.plans.scheme import AUTO, BUMBLEBEE, SCHEMES
from tacita.schemes import base
from tacita.schemes.base import AnyPlan, Report
from tacita.schemes.registry import scheme_of
from tacita.server import logs
from tacita.server.core.settings import SILENT
from tacita.texts.task import CHOICE, NEXT, SEARCH
from tacita.two_party.plan.generation_cost import GenerationCost
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.version import __version__

PUBLIC = "public"
MADE_OF, FOLDER = "made-of.json", "offers"


@dataclass(frozen=True)
class Offered:
    """A plan that clients can ask by. folder: of plan.json and of the public folder. source: where the
    model comes from, for the worker."""

    plan: AnyPlan
    folder: Path
    source: Path
    sha256: str
    offer: wire.Offer = field(repr=False)

    @property
    def files(self) -> Plan:
        """Returns the plan of a scheme of files. Raises InputError for another."""
        if not isinstance(self.plan, Plan):
            raise InputError(
                f"{self.plan.scheme} takes no files", hint="it is asked over the two-party socket"
            )
        return self.plan

    @property
    def public(self) -> Path:
        return self.folder / PUBLIC

    @property
    def keeps(self) -> bool:
        """Whether a request is one row of a text whose others the server keeps."""
        return isinstance(self.plan, Plan) and bool(self.plan.kept)

    @property
    def most_request(self) -> int:
        return most_bytes("request", self.files)


@dataclass(frozen=True)
class Offers:
    """Plans by model and scheme; the first scheme of a model is its default."""

    named: Mapping[tuple[str, str], Offered]
    models: tuple[wire.Model, ...]


def offers_of(
    model: Checkpoint,
    source: Path,
    schemes: Sequence[str],
    request: PlanRequest,
    data: Path,
    report: Report,
    *,
    insecure: bool,
    name: str = "",
    silent: float = SILENT,
) -> Offers:
    """Returns all offers of a model, made or read. name: that clients give (default: the model's own).
    silent: of `Settings`. Raises what planning raises, and PlanError for parameters below 128 bits unless
    `insecure`, InputError for a cache without the scheme that has one. Cost: at the first start some 15 s a
    scheme."""
    name = public_name(name or model.name)
    named: dict[tuple[str, str], Offered] = {}
    if request.cache and CACHING not in schemes:
        hint = f"--schemes {CACHING}, or no [plan] cache"
        raise InputError(f"{name}: a cache without {CACHING}", hint=hint)
    for scheme in schemes:
        folder = data / FOLDER / name / scheme
        plan = _plan(model, request_under(request, scheme), folder, report)
        if isinstance(plan, Plan):
            engine.require_secure(plan.parameters, allow_insecure=insecure)
        offer = _offer(plan, model, folder, silent)
        named[name, scheme] = Offered(plan, folder, source, model.sha256, offer)
    first = next(iter(named.values())).plan
    tasks = [{"task": o.plan.task} if o.plan.task != first.task else {} for o in named.values()]
    entry = wire.Model(
        name=name,
        task=first.task,
        problem=first.problem,
        labels=first.labels[:1] if first.problem == SEARCH else first.labels,  # the program has all
        offers=tuple(o.offer.model_copy(update=task) for o, task in zip(named.values(), tasks, strict=True)),
    )
    return Offers(named, (entry,))


def request_under(request: PlanRequest, scheme: str) -> PlanRequest:
    """Returns the plan request of one of a model's schemes. Rows are kept, packings named and links reckoned
    with where the scheme has them. Raises InputError for a name that there is not."""
    packings = (AUTO, *SCHEMES[scheme].packings) if scheme in SCHEMES else (AUTO,)
    packing = request.packing if request.packing in packings else None
    cache, link = request.cache and scheme == CACHING, request.link if scheme == BUMBLEBEE else None
    return replace(request, scheme=scheme, packing=packing, cache=cache, link=link)


def together(each: Sequence[Offers]) -> Offers:
    """Returns the offers of several models. Raises InputError for two of one name."""
    models = [model for offers in each for model in offers.models]
    if twice := [name for name, count in Counter(model.name for model in models).items() if count > 1]:
        raise InputError(f"two models named {twice[0]}", hint="[models.OTHER] model = ..., for one of them")
    return Offers(dict(pair for offers in each for pair in offers.named.items()), tuple(models))


def public_name(name: str) -> str:
    """Returns a model's name as it stands in an address.

    >>> public_name("bert base/uncased")
    'bert-base-uncased'
    """
    letters = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name).strip("-.")
    return letters[:100] or "model"


def _plan(model: Checkpoint, request: PlanRequest, folder: Path, report: Report) -> AnyPlan:
    if (plan := kept_plan(model, request, folder)) is not None:
        return plan
    plan = api.plan(model, request, progress=report)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    base.save(plan, Workdir(folder).plan)
    write_text(folder / MADE_OF, json.dumps(_made_of(model, request), sort_keys=True))
    return plan


def kept_plan(model: Checkpoint, request: PlanRequest, folder: Path) -> AnyPlan | None:
    """Returns the plan of an earlier start, None where there is none of this model and request that this
    release can serve. A two-party plan, without keys, is of one release; a decoder's says what ends texts."""
    made_of, path = folder / MADE_OF, Workdir(folder).plan
    if not (path.exists() and made_of.exists()):
        return None
    try:
        before, wanted = json.loads(made_of.read_text(encoding="utf-8")), _made_of(model, request)
        if not _is_same(before, wanted):
            return None
        plan = base.load(path)
        if before["release"] == __version__:
            return plan
        if isinstance(plan, Plan):
            engine.parameters(plan.parameters, allow_insecure=True)  # the caller asks for 128 bits
            circuit_of(plan, model)
        serves = isinstance(plan, Plan) and (plan.ends is not None or plan.task not in (NEXT, CHOICE))
        return plan if serves else None
    except (TacitaError, ValueError, KeyError, TypeError) as error:
        logs.warn("plan made again", model=model.name, scheme=request.scheme, why=str(error)[:200])
        return None


def _made_of(model: Checkpoint, request: PlanRequest) -> dict[str, Any]:
    """Returns what a plan follows from, and the release that made it."""
    fields: dict[str, Any] = {name: repr(value) for name, value in vars(request).items()}
    fields["texts"] = hashlib.sha256(repr(request.texts).encode()).hexdigest()
    return {"release": __version__, "model": model.sha256, "plan_request": fields}


def _is_same(before: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Returns whether a plan that was made of `before` is the wanted one. A field that the earlier release
    did not have must be at its default, as that release had it."""
    default = {name: repr(value) for name, value in vars(PlanRequest()).items()}
    return before["model"] == wanted["model"] and {**default, **before["plan_request"]} == {
        **default,
        **wanted["plan_request"],
    }


def _offer(plan: AnyPlan, model: Checkpoint, folder: Path, silent: float) -> wire.Offer:
    common: dict[str, Any] = {
        "scheme": plan.scheme,
        "plan": plan.hash,
        "connected": scheme_of(plan.scheme).connected,
        "batch": plan.batch,
        "tokens": plan.tokens,
        "seconds": plan.predicted_seconds(),
        "traffic_bytes": plan.predicted_bytes(),
    }
    if isinstance(plan, TwoPartyPlan):
        return wire.Offer(**common, **_token_cost(plan))
    whole = api.publish(plan, model, folder / PUBLIC)
    size = sum(path.stat().st_size for path in (folder / PUBLIC).iterdir())
    info, sizes = plan.parameters, file_bytes(plan)
    return wire.Offer(
        **common,
        keys_bytes=sizes["evaluation_keys"],
        request_bytes=sizes["request"],
        response_bytes=sizes["response"],
        preset=info.preset,
        security_bits=info.security_bits,
        public=whole,
        public_bytes=size,
        keygen_seconds=plan.prediction.seconds["keygen"],
        kept_bytes=kept_bytes(plan, again=True),
        kept_seconds=silent if plan.kept else 0.0,
    )


def _token_cost(plan: TwoPartyPlan) -> dict[str, Any]:
    """Returns what a token takes behind the first of a text that is written."""
    if plan.task != NEXT:
        return {}
    writing = GenerationCost.of(plan.program, plan.tokens)
    return {"token_bytes": writing.bytes()[1], "token_seconds": writing.seconds()[1]}
