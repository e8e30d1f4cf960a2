"""Starts a service and asks it as another program would: server and client, as two processes.

    python examples/server_and_client.py "a film of quiet beauty" --model sst2-tiny

On two machines, the operator runs the command of `serving`, and the client the lines of `main` with the
address of the service, its certificate and a token (`tacita token add`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tacita


def main() -> None:
    """Prints the label, and what the call cost."""
    parser = argparse.ArgumentParser(description="Serve a model, and ask it privately.")
    parser.add_argument("text")
    parser.add_argument("--model", default="sst2-tiny")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, serving(options.model, Path(name)) as url:
        trust, mine = Path(name) / "tls" / "certificate.pem", Path(name) / "mine"
        service = tacita.connect(url, trust=trust, data=mine)
        print(service.classify(options.text, scheme="bumblebee").label, options.text)
        if cost := service.last:
            print(f"{cost.sent} bytes sent, {cost.received} received")
        service.close()


@contextmanager
def serving(model: str, folder: Path) -> Iterator[str]:
    """Yields the address of a service of this model, with its data and certificate in the folder."""
    options = [
        "--https",
        "127.0.0.1:0",
        "--new-certificate",
        str(folder / "tls"),
        "--data",
        str(folder / "data"),
    ]
    options += ["--model", model, "--schemes", "bumblebee", "--tokens", "32", "--anybody"]
    command = [sys.executable, "-u", "-m", "tacita", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None  # it is a pipe
            line = next((line for line in server.stdout if line.startswith("listening on ")), "")
            yield line.removeprefix("listening on ").partition(",")[0]
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
