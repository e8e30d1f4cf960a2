"""An embedding as a sentence encoder defines it, by client and server through files on a toy ring: pooled,
decrypted, normalised."""

from __future__ import annotations

from pathlib import Path

import bert_by_hand
import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder, write_sentence_files

from tacita import api
from tacita.checkpoint import load
from tacita.texts.embed import tokenize

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

TEXTS = ["a fine film", "the plot is dull , dull , dull"]
RINGS = {"thor": "insecure_toy_n10", "arion": "insecure_toy_n9"}


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("scheme", RINGS)
def test_encrypted_embeddings_are_as_defined(scheme: str, pooling: str, tmp_path: Path) -> None:
    folder = write_folder(
        make_random_checkpoint(layers=1, labels=()), tmp_path / "model"
    )  # pooler weights are stored too
    write_sentence_files(folder, 16, pooling, normalise=True)
    model = load(folder)
    plan = api.plan(model, tokens=16, preset=RINGS[scheme], scheme=scheme, texts=TEXTS)
    client = api.Client(api.public_of(plan, model), tmp_path / "work", allow_insecure=True)
    client.keygen()
    server = api.Server(plan, model, tmp_path / "work", threads=1, allow_insecure=True)
    for text in TEXTS:
        client.encrypt(text)
        server.evaluate()
        answer = client.decrypt()
        ids = tokenize(model, text)[0]
        wanted = bert_by_hand.embedding(
            model.tensors, ids, heads=2, layers=1, pooling=pooling, normalise=True
        )
        assert answer.label is None and answer.warnings == ()
        assert np.abs(np.array(answer.logits) - wanted).max() < 0.01
