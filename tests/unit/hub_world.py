"""A Hugging Face Hub on this machine, as far as `checkpoint.hub` asks it: what a model consists of, its
files, and refusals."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = re.compile(r"/api/models/([\w.-]+/[\w.-]+)(?:/(revision|tree)/([^/]+))?")
FILE = re.compile(r"/([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)")


@dataclass
class Hub:
    """What it holds, and what it was asked. models: folder by name. refusals: code of an error by name, as
    the Hub's `X-Error-Code` has it. sizes: bytes that it claims of a file. commit: what it says that main
    is."""

    endpoint: str = ""
    models: dict[str, Path] = field(default_factory=dict)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    sizes: dict[str, int | None] = field(default_factory=dict)
    commit: str = COMMIT
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers and body."""
        self.asked.append(path)
        if file := FILE.fullmatch(path):
            return self._file(*file.groups())
        if not (match := MODEL.fullmatch(path)):
            return 404, {}, b"{}"
        name, kind, revision = match.groups()
        if name in self.refusals:
            status, code = self.refusals[name]
            return status, {"X-Error-Code": code}, b"{}"
        if name not in self.models:
            return 401, {"X-Error-Code": "RepoNotFound"}, b"{}"
        if revision not in (None, "main", self.commit):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        return 200, {"Content-Type": "application/json"}, json.dumps(self._listing(name, kind)).encode()

    def _listing(self, name: str, kind: str | None) -> Any:
        folder = self.models[name]
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path for path in paths}
        sizes = {file: self.sizes.get(file, path.stat().st_size) for file, path in files.items()}
        if kind == "tree":
            return [{"type": "file", "path": f, "size": size, "oid": "0"} for f, size in sizes.items()]
        siblings = [{"rfilename": file, "size": size, "blobId": "0"} for file, size in sizes.items()]
        return {"id": name, "sha": self.commit, "siblings": siblings, "private": False, "tags": []}

    def _file(self, name: str, revision: str, file: str) -> tuple[int, dict[str, str], bytes]:
        data = (self.models[name] / unquote(file)).read_bytes()
        assert revision == self.commit
        return 200, {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": self.commit}, data


@contextmanager
def hub() -> Iterator[Hub]:
    """Yields a Hub that listens on a free port of the loopback."""
    world = Hub()

    class Handler(BaseHTTPRequestHandler):
        def _respond(self, *, body: bool) -> None:
            status, headers, data = world.answer(urlsplit(self.path).path)
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(data))}).items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def do_GET(self) -> None:
            self._respond(body=True)

        def do_HEAD(self) -> None:
            self._respond(body=False)

        def log_message(self, *_: Any) -> None:
            """Writes no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    world.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
