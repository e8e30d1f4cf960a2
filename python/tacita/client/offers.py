"""What a server offers: which model and offer answers, told from its list, and the public folder of one."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from tacita.client.http.channel import Channel
from tacita.client.http.events import download
from tacita.errors import FileError, InputError, PeerError, nearest
from tacita.plans.public_folder import CAPS, MANIFEST, MAX_MANIFEST_BYTES, Public, open_public, parse_manifest
from tacita.plans.scheme import AUTO
from tacita.plans.wire import Model, Models, Offer
from tacita.texts.task import GIVES, PROBLEMS, SINGLE_LABEL, TASKS, kind_of, suits

BYTES_PER_SECOND = 125e6  # of an upload of keys, 1 Gbit/s
EITHER = ("classify", "search")  # alike where a server states no problem; its plan tells which


def choose(
    models: Models,
    verbs: Sequence[str],
    model: str | None,
    scheme: str | None,
    texts: int = 1,
    tokens: int = 1,
    *,
    cache: bool = False,
) -> tuple[Model, Offer]:
    """Chooses a model and one of its offers: the first, where texts are written the first of two parties.
    verbs: what is asked first, and kinds of models that do as well. scheme: "auto" for the offer by which so
    many texts, each of so many tokens to write, are answered soonest, keys included. cache: of those whose
    server keeps rows, else of the others, if there are any. Raises InputError for names that the server does
    not offer, for no model or several that would do, and one of another kind."""
    selected = _model(models, verbs, model)
    named = scheme not in (None, AUTO)
    if named and scheme not in (schemes := [offer.scheme for offer in selected.offers]):
        hint = nearest(str(scheme), schemes)
        raise InputError(f"{selected.name}: not offered under scheme {scheme!r:.60}", hint=hint)
    suiting = [offer for offer in selected.offers if not named or offer.scheme == scheme]
    offers = [offer for offer in suiting if cache == (offer.kept_bytes > 0)]
    if cache and not offers:
        by = f" by {scheme}" if named else ""
        hint = "ask without --cache; its operator sets [plan] cache, by this release"
        raise InputError(f"{selected.name}: the server keeps no rows of texts{by}", hint=hint)
    offers = offers or suiting
    if scheme == AUTO:
        return selected, min(offers, key=lambda offer: seconds_of(offer, texts, tokens))
    return selected, min(offers, key=lambda offer: "generate" in verbs and not offer.connected)


def seconds_of(offer: Offer, texts: int, tokens: int = 1) -> float:
    """Estimates the seconds of so many texts: keys made and sent, and as many requests as they fill. tokens:
    that each is written with; each behind the first takes what the offer says, or another request."""
    once = offer.keygen_seconds + offer.keys_bytes / BYTES_PER_SECOND
    each = offer.seconds + (tokens - 1) * (offer.token_seconds or offer.seconds)
    return once + -(-texts // offer.batch) * each


def _model(models: Models, verbs: Sequence[str], name: str | None) -> Model:
    offered = [each for each in models.models if each.offers]
    names = ", ".join(each.name for each in offered) or "none"
    if name is not None:
        for each in offered:
            if each.name == name:
                return _suiting(each, verbs)
        raise InputError(f"{verbs[0]}: the server has no model {name!r:.200}", hint=f"its models: {names}")
    suiting = [each for each in offered if can_answer(each, verbs)]
    if len(suiting) == 1:
        return suiting[0]
    if not suiting:
        raise InputError(f"{verbs[0]}: no model of the server answers so", hint=f"its models: {names}")
    several = ", ".join(each.name for each in suiting)
    raise InputError(
        f"{verbs[0]}: {len(suiting)} models of the server answer so", hint=f"name one: {several}"
    )


def _suiting(model: Model, verbs: Sequence[str]) -> Model:
    if not can_answer(model, verbs):
        kind = _kind(model)
        gives = GIVES.get(kind, "something that this release does not know")
        raise InputError(
            f"{verbs[0]}: the model answers with {gives}, not {GIVES[verbs[0]]}",
            hint=f"ask it to {kind}" if kind else "use the server's release",
        )
    return model


def can_answer(model: Model, verbs: Sequence[str]) -> bool:
    """Tells whether a model of a server can be asked with one of these verbs."""
    known = _known(model)
    either = not model.problem and _kind(model) in EITHER and bool({*EITHER} & {*verbs})
    return either or (known is not None and suits(verbs, known))


def _kind(model: Model) -> str:
    """Returns a key of `GIVES`, or "" for a task or a problem that this release does not know."""
    known = _known(model)
    return kind_of(known) if known else ""


def _known(model: Model) -> Model | None:
    known = model.model_copy(update={"problem": model.problem or SINGLE_LABEL})
    return known if known.task in TASKS and known.problem in PROBLEMS else None


# The public folder of a model, fetched once and then cached under its hash.

HINT = "the server offers one thing and sends another: tell its operator"


async def fetch_public(channel: Channel, model: str, offer: Offer, cache: Path) -> Public:
    """Returns the public folder of an offer, from the cache where it is there and whole.

    cache: folder of folders named by hash. Raises PeerError where the folder is not what was offered,
    FileError where it is damaged or no public folder.
    """
    if offer.public is None:
        raise PeerError(f"{model}, {offer.scheme}: offered without a public folder", hint=HINT)
    cached = cache / offer.public
    with suppress(FileError):
        return require_offered(await asyncio.to_thread(open_public, cached), offer)
    with tempfile.TemporaryDirectory(prefix="part-", dir=cache) as folder:
        await _fetch(channel, model, offer, Path(folder))
        public = require_offered(await asyncio.to_thread(open_public, Path(folder)), offer)
        _keep(Path(folder), cached)
    return public


def require_offered(public: Public, offer: Offer) -> Public:
    """Returns the folder unchanged. Raises PeerError unless it is what was offered."""
    plan = public.plan
    published = (public.sha256, plan.hash, plan.scheme, plan.batch)
    if published != (offer.public, offer.plan, offer.scheme, offer.batch):
        raise PeerError(f"public folder {public.sha256[:12]}: not the plan that was offered", hint=HINT)
    return public


async def _fetch(channel: Channel, model: str, offer: Offer, folder: Path) -> None:
    path, params = f"/models/{quote(model, safe='')}/public", {"scheme": offer.scheme}
    await download(channel, path, folder / MANIFEST, MAX_MANIFEST_BYTES, params)
    whole, files = parse_manifest(folder / MANIFEST, (folder / MANIFEST).read_bytes())
    if whole != offer.public:
        raise PeerError(f"public folder {whole[:12]}, offered was {str(offer.public)[:12]}", hint=HINT)
    for name in files:
        await download(channel, f"{path}/{name}", folder / name, CAPS[name], params)


def _keep(folder: Path, cached: Path) -> None:
    """Copies the folder into the cache, in place of a damaged one that may be there. A cache that cannot be
    written is no error: the folder is fetched again next time."""
    with suppress(OSError):
        shutil.rmtree(cached, ignore_errors=True)
        shutil.copytree(folder, cached.with_name(f"{folder.name}-kept"))
        cached.with_name(f"{folder.name}-kept").rename(cached)
