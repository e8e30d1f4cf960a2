"""The gateway before a service on ciphertexts: keys are made once, before it listens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openai
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_openai_guide import command

import tacita
from tacita.api import reference_logits
from tacita.cli.options import Values
from tacita.cli.service.started import started

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native
TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "the film is bad"]
TOY: Values = {"plan": {"preset": "insecure_toy_n10", "tokens": 16}, "run": {"allow_insecure": True}}


def test_embeddings_on_ciphertexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True, seed=7)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "mine"))
    monkeypatch.setenv("TACITA_RUN__ALLOW_INSECURE", "true")
    token, log, sentences = tmp_path / "token", tmp_path / "gateway.log", tmp_path / "texts.txt"
    sentences.write_text("\n".join(TEXTS))
    served = ["--model", str(write_folder(model, tmp_path / "enc")), "--texts", str(sentences)]
    with started(tmp_path, *served, "--schemes", "thor", settings=TOY) as server:
        token.write_text(server.token("reader"))
        asked = ["--connect", server.url, "--trust", str(server.certificate), "--token-file", str(token)]
        with command(*asked, log=log) as (_, url):
            (key,) = (tmp_path / "mine").rglob("secret.key")
            made = key.stat().st_mtime_ns
            with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
                rows = client.embeddings.create(model="enc", input=TEXTS[:2]).data
            assert key.stat().st_mtime_ns == made
        plan = tacita.plan(model, scheme="thor", tokens=16, preset="insecure_toy_n10", texts=TEXTS)
        for row, text in zip(rows, TEXTS, strict=False):
            vector, floats = np.array(row.embedding), reference_logits(plan, model, text)
            assert vector @ floats / np.linalg.norm(floats) / np.linalg.norm(vector) > 0.999
        seen = (tmp_path / "log").read_text()
    assert "answered" in seen and not [text for text in TEXTS if text in seen + log.read_text()]
