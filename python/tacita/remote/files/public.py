"""The public folder of a model, fetched once and then kept under its hash."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from tacita.errors import FileError, PeerError
from tacita.protocol.http.wire import Offer
from tacita.protocol.public_folder import (
    CAPS,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    Public,
    open_public,
    parse_manifest,
)
from tacita.remote.http.channel import Channel
from tacita.remote.http.download import download

HINT = "the server offers one thing and sends another: tell its operator"


async def fetched(channel: Channel, model: str, offer: Offer, cache: Path) -> Public:
    """What the server publishes of an offer, from the cache where it is there and whole.

    cache: folder of folders named by hash. Raises PeerError where it is not what was offered, FileError
    where it is damaged or no public folder.
    """
    if offer.public is None:
        raise PeerError(f"{model}, {offer.scheme}: offered without a public folder", hint=HINT)
    kept = cache / offer.public
    with suppress(FileError):
        return agreed(await asyncio.to_thread(open_public, kept), offer)
    with tempfile.TemporaryDirectory(prefix="part-", dir=cache) as folder:
        await _fetch(channel, model, offer, Path(folder))
        public = agreed(await asyncio.to_thread(open_public, Path(folder)), offer)
        _keep(Path(folder), kept)
    return public


def agreed(public: Public, offer: Offer) -> Public:
    """The same. Raises PeerError unless it is what was offered."""
    plan = public.plan
    found = (public.sha256, plan.hash, plan.scheme, plan.batch)
    if found != (offer.public, offer.plan, offer.scheme, offer.batch):
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


def _keep(folder: Path, kept: Path) -> None:
    """Under its own name, in the place of what may be there and was damaged. A cache that cannot be written
    is no error: the folder is fetched the next time again."""
    with suppress(OSError):
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept.with_name(f"{folder.name}-kept"))
        kept.with_name(f"{folder.name}-kept").rename(kept)
