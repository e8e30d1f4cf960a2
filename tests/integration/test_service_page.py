"""The page that `tacita serve --https` serves, asked by a real browser. `make web` builds the page,
`make setup-browser` installs what it needs."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from random_checkpoint import make_random_checkpoint, write_folder
from test_decoder_folders import LLAMA, WORDS, written
from tiny_decoders import llama
from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

import tacita
from tacita.checkpoint import Checkpoint
from tacita.cli.service.started import PATIENCE, Started, started
from tacita.data import DEFAULT_DECODER, WEB
from tacita.texts.answer import Classes

pytestmark = [pytest.mark.native, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
CHROMIUM = os.environ.get("TACITA_CHROMIUM") or shutil.which("chromium")
TOY = {"plan": {"preset": "insecure_toy_n11"}, "run": {"allow_insecure": True}, "service": {"drain": 0}}
OPENING = "She was not"
TEXTS = {"a film of quiet beauty": "positive", "a waste of time, truly bad": "negative"}


def in_browser(test: Any) -> Any:
    """Where there is no browser, or no page, the test is skipped."""
    built = NODE is not None and (WEB / "index.html").is_file() and (ROOT / "web" / "node_modules").exists()
    reason = "node, playwright-core, the page: make web; Chromium: make setup-browser"
    return pytest.mark.skipif(not (built and CHROMIUM), reason=reason)(test)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("page")
    options = ("--schemes", "bumblebee,thor", "--tokens", "16", "--anybody")
    with started(folder, *options, settings=TOY, plain=True) as found:
        yield found


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


def scripted(name: str, *arguments: str, **how: str) -> Any:
    """Returns what a script of `web/test` prints of the page in Chromium."""
    command = [str(NODE), str(ROOT / "web" / "test" / name), str(CHROMIUM), *arguments]
    named = {**os.environ, **how}
    done = subprocess.run(command, env=named, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def driven(address: str, *texts: str, **how: str) -> Any:
    """What the page showed, driven by `web/test/page.mjs`."""
    found = scripted("page.mjs", address, *texts, **how)
    assert found["unnamed"] == []
    return found


@in_browser
def test_the_page_is_accessible_at_every_size_and_in_every_language(server: Started) -> None:
    """axe-core, at four sizes, light and dark, before the question and behind the answer."""
    found = scripted("look.mjs", f"{server.url}/", LANGUAGES="en,de,zh")
    assert found == {"looks": 20, "violations": [], "wide": []}


@in_browser
def test_the_keyboard_suffices(server: Started) -> None:
    found = scripted("keys.mjs", f"{server.url}/")
    assert (found["missed"], found["unmarked"]) == ([], [])
    assert found["answer"] == {
        "lang": "de",
        "label": "negative",
        "status": "Antwort: negative",
        "focus": "go",
    }
    assert found["motion"]["full"] > 0 and found["motion"]["reduced"] == 0


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A service of the package's decoder on ciphertexts alone."""
    folder, ring = tmp_path_factory.mktemp("writer"), {"plan": {"preset": "insecure_toy_n12"}}
    options = ("--model", DEFAULT_DECODER.name, "--schemes", "thor", "--tokens", "16", "--anybody")
    with started(folder, *options, settings=TOY | ring, plain=True) as found:
        yield found


@in_browser
def test_a_browser_has_a_text_written_on_ciphertexts(writer: Started) -> None:
    """Two tokens of two requests, then one that ends behind its first; nothing stays at the server."""
    found = driven(f"{writer.url}/?allow-insecure", OPENING, WRITE="2")
    assert found["complaints"] == [] and "Each token sends" in found["price"]
    wanted = "".join(each.text for each in tacita.generate(OPENING, max_tokens=2, backend="plain"))
    (shown,) = found["answers"]
    assert shown["written"] == OPENING + wanted and shown["label"] == "2 tokens"
    assert shown["status"] == "Written: 2 tokens" and "2 tokens asked for, and nothing more" in shown["saw"]
    stopped = driven(f"{writer.url}/?allow-insecure", OPENING, WRITE="9", STOP="1")
    (shown,) = stopped["answers"]
    assert (OPENING + wanted).startswith(shown["written"]) and shown["written"] != OPENING
    assert list(writer.data.glob("requests/*")) == []


PROMPT = "ab 12"
BYTES = LLAMA | {"vocab_size": 256, "num_hidden_layers": 1, "tie_word_embeddings": False}


def of_bytes() -> Checkpoint:
    """Returns a decoder over bytes."""
    bytes_only = Tokenizer(models.BPE({sign: i for i, sign in enumerate(sorted(ByteLevel.alphabet()))}, []))
    bytes_only.pre_tokenizer, bytes_only.decoder = ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return replace(llama(seed=1, vocab=256, layers=1), tokenizer=bytes_only)


def sentences(folder: Path) -> str:
    """Writes texts to calibrate such a decoder by. Returns their path."""
    (path := folder / "texts").write_text("".join(f"{at} ab {7 * at} ba{at % 5}\n" for at in range(24)))
    return str(path)


@pytest.fixture
def twins(tmp_path: Path) -> Path:
    """Writes a decoder over bytes to which another one is as likely as the one that it writes first."""
    model = of_bytes()
    (first,) = tacita.generate(PROMPT, model=model, max_tokens=1, backend="plain")
    head = model.tensors["lm_head.weight"].copy()
    head[first.id + 1] = head[first.id]
    model = replace(model, tensors={**model.tensors, "lm_head.weight": head})
    return written(model, tmp_path, BYTES, {WORDS: "embed_tokens.weight"}, "model.")


@in_browser
def test_a_browser_gets_the_likeliest_token_alone(
    twins: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The page writes by a plan that shows no logits, and names a word that is as likely."""
    folder = tmp_path_factory.mktemp("alone")
    options = ("--model", str(twins), "--schemes", "thor", "--tokens", "16", "--anybody")
    alone = {"plan": TOY["plan"] | {"reveal": "token", "gap": 0.02, "texts": sentences(folder)}}
    with started(folder, *options, settings=TOY | alone, plain=True) as server:
        found = driven(f"{server.url}/?allow-insecure", PROMPT, WRITE="2")
    (shown,), model = found["answers"], tacita.load(twins)
    tokens = list(tacita.generate(PROMPT, model=model, max_tokens=2, backend="plain"))
    assert found["complaints"] == [] and shown["status"] == "Written: 2 tokens" and not found["heat"]
    assert shown["written"] == PROMPT + "".join(token.text for token in tokens)
    assert model.tokenizer is not None and tokens[1].id != tokens[0].id
    other = model.tokenizer.decode([tokens[0].id + 1])
    assert shown["ties"] == f"token 1 could as well be “{other}”"


@in_browser
def test_a_browser_has_a_text_written_by_rows_that_the_server_keeps(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One that the server loses behind its first token is read anew; one that is stopped leaves no rows."""
    model = written(of_bytes(), tmp_path, BYTES, {WORDS: "embed_tokens.weight"}, "model.")
    folder = tmp_path_factory.mktemp("kept")
    options = ("--model", str(model), "--schemes", "thor", "--tokens", "16", "--anybody")
    kept = {"plan": TOY["plan"] | {"cache": True, "texts": sentences(folder)}}
    with started(folder, *options, settings=TOY | kept, plain=True) as server:
        found = driven(f"{server.url}/?allow-insecure", "ab", WRITE="2", LOSE="3")
        assert list(server.data.glob("texts/*/*/*")) == []
        stopped = driven(f"{server.url}/?allow-insecure", "ab", WRITE="9", STOP="1")
        assert list(server.data.glob("texts/*/*/*")) == []
        full = driven(f"{server.url}/?allow-insecure", "ab", WRITE="2", FULL="1")
    assert "keeps no further text of yours" in full["answers"][0]["status"]  # a visitor has one
    wanted = "".join(each.text for each in tacita.generate("ab", model=model, max_tokens=2, backend="plain"))
    (shown,) = found["answers"]
    assert shown["written"] == "ab" + wanted and shown["status"] == "Written: 2 tokens" and found["heat"]
    assert "Each token, of the prompt too" in found["price"] and "to the token" in shown["saw"]
    assert len(found["complaints"]) == 1 and "410" in found["complaints"][0]
    (shown,) = stopped["answers"]
    assert stopped["complaints"] == [] and shown["status"].startswith("Written: ")


def require_no_text(server: Started) -> None:
    files = [server.data.parent / "log", *filter(Path.is_file, server.data.rglob("*"))]
    assert not any(text.encode() in path.read_bytes() for text in TEXTS for path in files)


@in_browser
def test_a_browser_asks_and_the_server_sees_no_text(server: Started) -> None:
    found = driven(server.url, *TEXTS)
    assert found["complaints"] == []
    assert [each["label"] for each in found["answers"]] == list(TEXTS.values())
    require_no_text(server)


@in_browser
def test_a_browser_asks_by_keys_that_it_makes_and_drops(server: Started, tmp_path: Path) -> None:
    """Three pieces of the upload break off, one of them after it came. The answers are those of the Python
    client, within the noise of a toy ring."""
    found = driven(f"{server.url}/?allow-insecure", *TEXTS, WAY="thor", BREAK="3")
    assert all("ERR_FAILED" in each for each in found["complaints"]) and len(found["complaints"]) == 3
    assert "of keys are made here and sent, once" in found["price"]
    with tacita.connect(server.url, data=tmp_path, allow_insecure=True) as service:
        expected = service.classify(list(TEXTS), scheme="thor")
    for shown, answer in zip(found["answers"], expected, strict=True):
        assert isinstance(answer, Classes) and shown["label"] == answer.label
        share = float(dict(shown["scores"])[answer.label].removesuffix(" %"))
        assert share == pytest.approx(100 * answer.scores[0].score, abs=0.2)
    keys = list(server.data.glob("keys/*/*"))
    assert len(keys) == 1  # the Python client's: the page's went with it
    require_no_text(server)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """A server of two models that answer for every token."""
    folder = tmp_path_factory.mktemp("rows")
    kinds = {"filler": ("words", ()), "reader": ("span", ("start", "end"))}
    made = {
        name: make_random_checkpoint(1, task=task, labels=labels) for name, (task, labels) in kinds.items()
    }
    words = [word for name in made for word in ("--model", str(write_folder(made[name], folder / name)))]
    options = (*words, "--schemes", "thor", "--tokens", "16", "--anybody")
    with started(folder, *options, settings=TOY, plain=True) as found:
        yield found


@in_browser
@pytest.mark.parametrize(("name", "text"), [("filler", "a [MASK] film"), ("reader", "a good plot")])
def test_a_browser_asks_about_every_token_by_ciphertexts(
    rows: Started, name: str, text: str, tmp_path: Path
) -> None:
    """A mask of a text, and an answer from a context: a pair of texts. They are those of the Python client,
    within the noise of a toy ring."""
    context = "the film is very good, never boring"
    second = {"SECOND": context} if name == "reader" else {}
    found = driven(f"{rows.url}/?allow-insecure", text, MODEL=name, WAY="thor", **second)
    [shown] = found["answers"]
    assert found["complaints"] == []
    with tacita.connect(rows.url, data=tmp_path, allow_insecure=True) as service:
        if name == "reader":
            expected: Any = service.answer(text, context, model=name)
            wanted = [(context[expected.span.start : expected.span.end], expected.span.score)]
        else:
            expected = service.fill(text, model=name)
            wanted = [(one.label, one.score) for one in expected.masks[0].best()]
            assert shown["label"] == expected.text
    assert [row[0] for row in shown["scores"]] == [label for label, _ in wanted]
    for (_, share), (_, score) in zip(shown["scores"], wanted, strict=True):
        assert float(share.removesuffix(" %")) == pytest.approx(100 * score, abs=1)


@in_browser
def test_a_browser_refuses_parameters_that_keep_nothing_secret(server: Started) -> None:
    found = driven(server.url, "a film of quiet beauty", WAY="thor")
    assert "keep nothing secret" in found["answers"][0]["status"]


@in_browser
def test_a_text_that_is_too_long_costs_no_keys(server: Started) -> None:
    found = driven(f"{server.url}/?allow-insecure", "x " * 50, WAY="thor")
    assert "text has 52 tokens" in found["answers"][0]["status"]
