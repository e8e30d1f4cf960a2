"""The client's steps in a process and a folder that hold no weights: the same answers as on the server's own
machine.

The client's process starts in its own folder, gets no path of a model, and the model's folder is gone while
it runs. What it opens is watched (`sys.addaudithook`), and so are the modules that it imports.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint, write_folder

import tacita
from tacita import api
from tacita.data import DEFAULT_DECODER, DEFAULT_MODEL
from tacita.errors import InputError
from tacita.plans.plan import Plan
from tacita.schemes.two_parties import listening
from tacita.two_party.plan.plan import TwoPartyPlan
from tacita.two_party.server import TwoPartyServer

pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

TEXTS = ["a fine film", "the plot is dull", "never boring"]
CALIBRATION = [*TEXTS, "good", "bad plot", "the film is a very fine film", "dull dull dull"]
PRESET = "insecure_toy_n10"
PACKINGS = [("thor", "rows"), ("thor", "multidiagonal"), ("arion", "columns"), ("moai", "columns")]
CLIENT = """
import json, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from tacita.client import Client
step, count = sys.argv[1], int(sys.argv[2])
client = Client("public", "work", allow_insecure=True)
if step == "ask":
    client.keygen()
    client.encrypt_batch(json.load(open("texts.json")))
else:
    answers = client.decrypt_batch(count)
    found = [{"label": a.label, "logits": a.logits, "warnings": a.warnings} for a in answers]
    json.dump(found, open("answers.json", "w"))
assert not [path for path in opened if path.endswith("model.safetensors")], opened
forbidden = ("tacita.models", "tacita.blocks", "tacita.approx", "tacita.checkpoint", "tacita.evaluate")
assert not [name for name in sys.modules if name.startswith(forbidden)], sorted(sys.modules)
endings = (".parts", ".lowering", ".attention", ".planning.circuit")
assert not [name for name in sys.modules if name.endswith(endings)]
"""


CONNECTED = """
import sys
from pathlib import Path
from tacita.client.store import PublicCache
from tacita.texts.generation import TextOptions
from tacita.two_party.client import TwoPartyClient, connected
from tacita.two_party.protocol.party import dial
host, port, fingerprint, kind = sys.argv[1:]
client = TwoPartyClient(dial(host, int(port), fingerprint=fingerprint, threads=1), PublicCache(Path("cache")))
if kind == "write":
    print("".join(token.text for token in connected(client, "It is a truth", TextOptions(max_tokens=3))))
else:
    print(client.classify("a film of quiet beauty").label)
client.end()
forbidden = ("models", "blocks", "approx", "checkpoint", "packings", "planning", "evaluate")
assert not [name for name in sys.modules if name.startswith(tuple(f"tacita.{each}" for each in forbidden))]
"""


@pytest.mark.parametrize(("name", "kind"), [(DEFAULT_MODEL, "classify"), (DEFAULT_DECODER, "write")])
def test_a_client_of_two_parties_needs_no_model(name: str, kind: str, tmp_path: Path) -> None:
    model = api.load(name)
    plan = api.plan(model, scheme="bumblebee", tokens=16)
    assert isinstance(plan, TwoPartyPlan)
    with listening(TwoPartyServer(plan, model), threads=1) as address:
        where = address.host, str(address.port), address.fingerprint
        found = python(tmp_path, CONNECTED, *where, kind)
    wanted = "positive"
    if kind == "write":
        tokens = tacita.generate("It is a truth", model=model, max_tokens=3)
        wanted = "".join(token.text for token in tokens)
    assert found == wanted


@pytest.mark.parametrize(("scheme", "packing"), PACKINGS)
def test_a_client_needs_the_public_folder_alone(scheme: str, packing: str, tmp_path: Path) -> None:
    texts = TEXTS[:1] if scheme == "thor" else TEXTS
    model = api.load(write_folder(make_random_checkpoint(), tmp_path / "server" / "model"))
    plan = api.plan(model, tokens=16, preset=PRESET, scheme=scheme, packing=packing, texts=CALIBRATION)
    client = tmp_path / "client"
    sha256 = api.publish(plan, model, tmp_path / "published")
    shutil.copytree(tmp_path / "published", client / "public")
    assert api.open_public(client / "public").sha256 == sha256
    (client / "texts.json").write_text(json.dumps(texts))
    (tmp_path / "server").rename(tmp_path / "away")

    run(client, "ask", len(texts))
    assert {path.name for path in client.rglob("*") if path.is_file()} == {
        "public.json", "plan.json", "tokenizer.json", "embedding.safetensors",
        "texts.json", "secret.key", "evaluation.keys", "request.ct",
    }  # fmt: skip
    assert plan.salt not in "".join(
        path.read_text(errors="replace") for path in (client / "public").iterdir()
    )

    server = tmp_path / "serving"
    server.mkdir()
    for name in ("evaluation.keys", "request.ct"):
        shutil.copy(client / "work" / name, server / name)
    api.Server(plan, model, server, allow_insecure=True, threads=1).evaluate()
    shutil.copy(server / "response.ct", client / "work" / "response.ct")
    run(client, "read", len(texts))

    found = json.loads((client / "answers.json").read_text())
    here = api.classify_batch_locally(plan, model, texts, backend="plain")
    for text, answer, plain in zip(texts, found, here, strict=True):
        reference = api.reference_logits(plan, model, text)
        assert answer["label"] == plain.label == model.config.labels[int(np.argmax(reference))]
        assert answer["warnings"] == list(plain.warnings) == []
        assert np.max(np.abs(np.array(answer["logits"]) - plain.logits)) <= 2 * 10.0**-plan.decimals
        assert np.max(np.abs(np.array(answer["logits"]) - reference)) < 0.02


def test_a_model_that_starts_from_hidden_states_publishes_its_plan_alone(tmp_path: Path) -> None:
    import plans

    plan, model = plans.real_plan(), plans.model()
    api.publish(plan, model, tmp_path / "public")
    assert {path.name for path in (tmp_path / "public").iterdir()} == {"public.json", "plan.json"}
    client = api.Client(tmp_path / "public", tmp_path / "work", allow_insecure=True)
    client.keygen()
    assert client.encrypt(hidden_states=np.zeros((8, 16)) + 0.1).exists()
    with pytest.raises(InputError, match="starts from hidden states"):
        client.encrypt("a text")
    assert Plan.load(tmp_path / "public" / "plan.json").salt == ""


def run(client: Path, step: str, count: int) -> None:
    """The client's program, in the client's folder."""
    python(client, CLIENT, step, str(count))


def python(folder: Path, program: str, *given: str) -> str:
    """What a program says that starts in this folder."""
    source = str(Path(api.__file__).parents[1])
    program = f"import sys; sys.path.insert(0, {source!r})\n{program}"
    command = [sys.executable, "-I", "-c", program, *given]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip("\n")
