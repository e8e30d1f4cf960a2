"""The page that `tacita serve --https` serves, asked by a real browser. `make web` builds the page,
`make setup-browser` installs what it needs."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from tacita.data import WEB
from tacita.measure.service.started import PATIENCE, Started, started

pytestmark = [pytest.mark.native, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
CHROMIUM = os.environ.get("TACITA_CHROMIUM") or shutil.which("chromium")
TEXTS = {"a film of quiet beauty": "positive", "a waste of time, truly bad": "negative"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("page")
    options = ("--schemes", "bumblebee", "--tokens", "16", "--anybody", "--drain", "0")
    with (folder / "log").open("w") as log, started(folder, *options, log=log, plain=True) as found:
        yield found


def test_the_program_of_the_two_party_client_is_public(server: Started) -> None:
    path = f"{server.url}/v1/models/sst2-tiny/public/program.json"
    found = httpx2.get(path, params={"scheme": "bumblebee"}, timeout=PATIENCE)
    (offer,) = httpx2.get(f"{server.url}/v1/models").json()["models"][0]["offers"]
    assert found.json()["plan"] == offer["plan"]
    again = httpx2.get(path, params={"scheme": "bumblebee"}, headers={"If-None-Match": found.headers["etag"]})
    assert again.status_code == 304
    assert httpx2.get(path, params={"scheme": "thor"}).status_code == 404


def test_the_root_is_the_page_or_the_api(server: Started) -> None:
    found = httpx2.get(server.url, follow_redirects=True)
    assert found.status_code == 200 and "<script>" not in found.text
    if (WEB / "index.html").is_file():
        assert found.headers["cross-origin-embedder-policy"] == "require-corp"
        assert "unsafe-inline" not in found.headers["content-security-policy"]
    for name in ("headers.json", "other.js", "..%2fdata%2f__init__.py"):
        assert httpx2.get(f"{server.url}/{name}").status_code == 404


def test_a_page_shows_its_token_as_a_subprotocol(server: Started, tmp_path: Path) -> None:
    """Whoever shows one is that client, also where anybody is answered."""
    url = f"ws{server.url.removeprefix('http')}/v1/two-party?model=sst2-tiny"

    def upgraded(token: str) -> str | None:
        named = "tacita.bearer." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
        with connect(url, subprotocols=[Subprotocol("tacita.two-party"), Subprotocol(named)]) as socket:
            return socket.subprotocol

    assert upgraded(server.token("page")) == "tacita.two-party"
    with pytest.raises(InvalidStatus, match="401"):
        upgraded("tacita_" + "x" * 43)


@pytest.mark.skipif(NODE is None or not (WEB / "index.html").is_file(), reason="node, or the page: make web")
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: make setup-browser")
@pytest.mark.skipif(not (ROOT / "web" / "node_modules").exists(), reason="playwright-core: make web")
def test_a_browser_asks_and_the_server_sees_no_text(server: Started) -> None:
    script = ROOT / "web" / "test" / "page.mjs"
    command = [str(NODE), str(script), str(CHROMIUM), server.url, *TEXTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["complaints"], found["unnamed"]) == ([], [])
    assert [each["label"] for each in found["answers"]] == list(TEXTS.values())
    files = [server.data.parent / "log", *filter(Path.is_file, server.data.rglob("*"))]
    assert not any(text.encode() in path.read_bytes() for text in TEXTS for path in files)
