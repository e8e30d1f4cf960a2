"""Asks a private model through OpenAI's own client: a gateway on this machine encrypts for it.

    pip install openai
    python examples/openai_client.py "a film of quiet beauty" "a quiet film" --model minilm

The gateway is started here, with both sides on this machine; `tacita gateway --connect` asks a server. Any
program that takes a `base_url` becomes private in the same way.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from openai import OpenAI


def main() -> None:
    """Prints the cosine of the two texts' vectors, which came by way of OpenAI's interface."""
    parser = argparse.ArgumentParser(description="Compare two texts through a private gateway.")
    parser.add_argument("text", nargs=2)
    parser.add_argument("--model", default="minilm", help="tacita models fetch minilm")
    options = parser.parse_args()
    with gateway(options.model) as url, OpenAI(base_url=url, api_key="unused") as client:
        name = client.models.list().data[0].id
        answer = client.embeddings.create(model=name, input=options.text)
    first, second = (np.array(row.embedding) for row in answer.data)
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    print(f"{cosine:.3f}  {options.text[0]} | {options.text[1]}")


@contextmanager
def gateway(model: str) -> Iterator[str]:
    """Yields the address of a gateway of this model, for as long as the block lasts."""
    options = ["--model", model, "--scheme", "bumblebee", "--tokens", "32", "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-u", "-m", "tacita", "gateway", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # it is a pipe
            line = next((line for line in process.stdout if line.startswith("listening on ")), "")
            yield line.removeprefix("listening on ").partition(",")[0] + "/v1"
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
