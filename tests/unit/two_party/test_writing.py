"""Two parties write a text: the tokens are those of the float model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from test_decoders_fixed import MODELS, plan_of
from tiny_decoders import hidden_of, logits

from tacita.blocks.weights import Weights
from tacita.checkpoint import pad_hidden
from tacita.two_party.arithmetic.residues import from_floats
from tacita.two_party.model import ServerModel
from tacita.two_party.program.run import zeros
from tacita.two_party.protocol.party import Party, pair
from tacita.two_party.writing import Writer

PROMPT = [7, 3, 19, 22, 5]


def written(model: Any, count: int, padding: int) -> tuple[list[int], list[Any]]:
    """The client's tokens, and bytes and rounds after the prompt and after each token."""
    plan = plan_of(model)

    def client(party: Party) -> Any:
        party.set_up()
        writer, costs, entered = Writer(party.native, plan.program), [], plan.program.entered
        given, mask = pad_hidden(hidden_of(model, PROMPT), len(PROMPT) + padding, left=True)
        ids = list(PROMPT)
        for _ in range(count):
            share = from_floats(given, entered.fraction, entered.ring).values
            found = writer.read(lambda share=share: share, len(given), mask)
            ids.append(writer.learn(writer.choose(found)))
            given, mask = hidden_of(model, ids)[-1:], np.append(mask, 1.0)
            costs.append((party.native.bytes_sent, party.native.bytes_received, party.native.rounds))
        return ids[len(PROMPT) :], costs

    def server(party: Party) -> None:
        party.set_up()
        own = ServerModel(plan.formats, Weights(model.tensors), plan.recorded.held)
        writer, rows = Writer(party.native, plan.program, own), len(PROMPT) + padding
        for _ in range(count):
            found = writer.read(lambda rows=rows: zeros(plan.program, rows), rows)
            writer.tell(writer.choose(found))
            rows = 1

    with pair(timeout=180.0) as parties, ThreadPoolExecutor(2) as pool:
        running = [pool.submit(work, party) for work, party in zip((client, server), parties, strict=True)]
        return next(future.result() for future in running)


def greedy(model: Any, count: int) -> list[int]:
    """By the whole sequence, in floats."""
    ids = list(PROMPT)
    for _ in range(count):
        ids.append(int(logits(model, ids)[-1].argmax()))
    return ids[len(PROMPT) :]


@pytest.mark.parametrize(("name", "padding"), [("one", 0), ("two", 3), ("all", 0), ("gpt2", 0)])
def test_tokens_are_those_of_floats(name: str, padding: int) -> None:
    model = MODELS[name]
    found, costs = written(model, 8, padding)
    assert found == greedy(model, 8)
    print(costs)
