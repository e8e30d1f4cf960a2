"""The public folder: what it holds, round trips, and every way in which somebody else's folder can be
wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita import api
from tacita.checkpoint import embed
from tacita.errors import FileError, PlanError
from tacita.plans import public_folder
from tacita.plans.json_fields import canonical
from tacita.plans.plan import Plan, TensorInfo
from tacita.plans.presets import PRESETS
from tacita.plans.prices.formulas import prices_of, run_bytes
from tacita.plans.public_folder import EMBEDDING, MANIFEST, PLAN, TOKENIZER, open_public, table_bytes
from tacita.texts.embedding import decode, parse_raw, table_shapes, to_bytes

MODEL = make_random_checkpoint()
TEXTS = ["a fine film", "the plot is dull", "never boring , very good", "bad"]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return api.plan(MODEL, tokens=16, preset="insecure_toy_n10", texts=TEXTS)


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Path:
    api.publish(plan, MODEL, tmp_path / "public")
    return tmp_path / "public"


def test_a_published_folder_embeds_as_the_model_does(plan: Plan, folder: Path) -> None:
    public = open_public(folder)
    assert public.plan == plan
    assert public.front is not None
    for text in TEXTS:
        for mine, theirs in zip(embed(MODEL, text, 16), embed(public.front, text, 16), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_the_tables_of_a_model_are_counted_at_its_client(plan: Plan) -> None:
    """A float32 takes four bytes in the folder, whatever holds it at the server; one that starts from hidden
    states has no tables."""
    bytes_, sizes = plan.prediction.bytes, (plan.request, plan.response)
    prices = prices_of(plan.parameters)
    bare = run_bytes(plan.parameters, plan.rotations, *sizes, 0, prices)["client_memory"]
    tables = {name: MODEL.tensors[name] for name in table_shapes(MODEL.config, MODEL.config.hidden)}
    numbers = sum(table.size for table in tables.values())
    assert bytes_["client_memory"] - bare == table_bytes(MODEL, MODEL.config.hidden) == 4 * numbers
    for kind, size in ((np.float32, 4), (np.float16, 2)):
        raw = parse_raw(to_bytes({name: table.astype(kind) for name, table in tables.items()}), "here")
        stored = {name: decode("here", name, raw[name]) for name in raw}
        narrow = dataclasses.replace(MODEL, tensors=stored)
        assert table_bytes(narrow, MODEL.config.hidden) == size * numbers


TEXT = (TensorInfo("hidden", 1, 9, "real"), TensorInfo("mask", 1, 16, "real"))
BATCH = (TensorInfo("hidden", 384, 3, "real"), TensorInfo("mask", 1, 16, "real"))
RESPONSE = (TensorInfo("answer", 1, 0, "real"),)


@pytest.mark.parametrize(
    ("preset", "request_", "measured"),
    [
        ("n16", TEXT, 300e6),
        ("n16", BATCH, 525e6),
        ("n16_leveled", TEXT, 482e6),
        ("n17_leveled", TEXT, 1.985e9),
    ],
)
def test_a_client_holds_what_was_measured(
    preset: str, request_: tuple[TensorInfo, ...], measured: float
) -> None:
    """The estimate is what making a key, or encrypting a request, takes, without a tokenizer; tables count
    twice, as they do while they are read."""
    info, prices = PRESETS[preset], prices_of(PRESETS[preset])

    def client(tables: int = 0) -> int:
        return run_bytes(info, (), request_, RESPONSE, 0, prices, tables=tables)["client_memory"]

    assert measured < client() < 1.5 * measured
    assert client(10**8) - client() == 10**8
    assert client(10**10) == 2 * 10**10 + prices.sizes.process


def test_nothing_of_the_encoder_and_no_plain_hash_is_published(plan: Plan, folder: Path) -> None:
    public = open_public(folder)
    assert public.front is not None
    assert set(public.front.tensors) == set(table_shapes(MODEL.config, MODEL.config.hidden))
    everything = b"".join(path.read_bytes() for path in folder.iterdir())
    for told in (MODEL.sha256, plan.salt, "encoder.layer", "weights.salt"):
        assert told.encode() not in everything


def test_the_hash_of_the_whole_is_what_publish_says(plan: Plan, folder: Path, tmp_path: Path) -> None:
    again = api.publish(plan, MODEL, tmp_path / "again")
    assert open_public(folder).sha256 == again == json.loads((folder / MANIFEST).read_text())["sha256"]


def test_publishing_again_replaces_what_it_wrote(plan: Plan, folder: Path) -> None:
    other = dataclasses.replace(plan, decimals=1)
    assert api.publish(other, MODEL, folder) != api.publish(plan, MODEL, folder)
    assert open_public(folder).plan == plan


@pytest.mark.parametrize("name", ["model.safetensors", "weights.salt", "secret.key", "notes.txt"])
def test_a_folder_with_other_files_is_not_published_into(name: str, plan: Plan, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileError, match=f"holds '{name}', which is no part"):
        api.publish(plan, MODEL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_other_weights_cannot_be_published_under_a_plan(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="committed to other weights"):
        api.publish(plan, make_random_checkpoint(seed=5), tmp_path)
    with pytest.raises(PlanError, match="without the salt"):
        api.publish(dataclasses.replace(plan, salt=""), MODEL, tmp_path)
    assert list(tmp_path.iterdir()) == []


def relisted(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    """Changes the list and makes its hash right again, as a hostile party writes it."""

    def spoil(folder: Path) -> None:
        data = json.loads((folder / MANIFEST).read_text())
        del data["sha256"]
        change(data)
        whole = public_folder._sha256(canonical(data))
        (folder / MANIFEST).write_text(json.dumps({**data, "sha256": whole}))

    return spoil


def replaced(name: str, data: bytes) -> Callable[[Path], None]:
    """Another file under its right hash."""

    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(data)
        relisted(lambda d: d["files"].update({name: public_folder._sha256(data)}))(folder)

    return spoil


def tables(**changed: np.ndarray) -> bytes:
    return to_bytes(
        {name: MODEL.tensors[name] for name in table_shapes(MODEL.config, MODEL.config.hidden)} | changed
    )


def altered(found: re.Match[str]) -> str:
    """Another hash, whatever it began with."""
    return f'"sha256":"{"11" if found[1] == "00" else "00"}'


WORDS = "embeddings.word_embeddings.weight"
SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no list": (lambda f: (f / MANIFEST).unlink(), r"public\.json: no such file"),
    "a list that is a folder": (lambda f: [(f / MANIFEST).unlink(), (f / MANIFEST).mkdir()], "no such file"),
    "a list that is a pipe": (lambda f: [(f / MANIFEST).unlink(), os.mkfifo(f / MANIFEST)], "no such file"),
    "a long list": (lambda f: (f / MANIFEST).write_text(" " * (1 << 17)), "more than 65536 bytes"),
    "a list that is no JSON": (lambda f: (f / MANIFEST).write_text("{"), "not JSON"),
    "a list that is not text": (lambda f: (f / MANIFEST).write_bytes(b"\xff\xfe"), "not text"),
    "a list of lists": (lambda f: (f / MANIFEST).write_text("[" * 60_000), "not JSON"),
    "a list that is one": (lambda f: (f / MANIFEST).write_text("[]"), "holds no object"),
    "another format": (relisted(lambda d: d.update(format="x")), "not a public folder"),
    "another version": (relisted(lambda d: d.update(version=2)), "version 2, this program reads 1"),
    "a version that is true": (relisted(lambda d: d.update(version="\x1b[2J")), "not printable"),
    "a field more": (relisted(lambda d: d.update(x=1)), "other files or fields"),
    "a file more": (relisted(lambda d: d["files"].update({"../x": "00" * 32})), "other files or fields"),
    "a file outside": (
        relisted(lambda d: d.update(files={"/etc/passwd": "00" * 32})),
        "other files or fields",
    ),
    "a file less": (relisted(lambda d: d["files"].pop(TOKENIZER)), "other files or fields"),
    "no embedding": (
        relisted(lambda d: d.update(files={PLAN: d["files"][PLAN]})),
        "do not belong to this plan",
    ),
    "files that are a list": (relisted(lambda d: d.update(files=[])), "other files or fields"),
    "a hash that is none": (relisted(lambda d: d["files"].update({PLAN: "x"})), "no sha256"),
    "a hash that is a list": (relisted(lambda d: d["files"].update({PLAN: []})), "no sha256"),
    "an altered list": (
        lambda f: (f / MANIFEST).write_text(re.sub(r'"sha256":"(..)', altered, (f / MANIFEST).read_text())),
        "does not match its hash",
    ),
    "an altered plan": (lambda f: (f / PLAN).write_bytes((f / PLAN).read_bytes() + b" "), "hash in public"),
    "an altered tokenizer": (lambda f: (f / TOKENIZER).write_text("{}"), "hash in public"),
    "altered tables": (
        lambda f: (f / EMBEDDING).write_bytes(tables(**{WORDS: -MODEL.tensors[WORDS]})),
        "hash in",
    ),
    "a file that is gone": (lambda f: (f / EMBEDDING).unlink(), r"embedding\.safetensors: no such file"),
    "a plan that is none": (replaced(PLAN, b"{}"), "not a plan file"),
    "a tokenizer that is none": (replaced(TOKENIZER, b"{}"), "not a tokenizer file"),
    "a tokenizer that is not text": (replaced(TOKENIZER, b"\xff"), "not text"),
    "tables that are none": (replaced(EMBEDDING, b"\xff" * 100), "not a safetensors file"),
    "a header of exabytes": (
        replaced(EMBEDDING, (1 << 62).to_bytes(8, "little") + b"{}"),
        "not a safetensors file",
    ),
    "another table": (replaced(EMBEDDING, tables(x=np.ones(2))), "tensors, the plan has"),
    "a smaller table": (
        replaced(EMBEDDING, tables(**{WORDS: np.ones((2, 2))})),
        "another shape than the plan says",
    ),
    "a table of infinities": (
        replaced(EMBEDDING, tables(**{WORDS: MODEL.tensors[WORDS] + np.inf})),
        "NaN or infinity",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), SPOILED.values(), ids=SPOILED.keys())
def test_what_was_not_published_is_refused(spoil: Callable[[Path], None], message: str, folder: Path) -> None:
    spoil(folder)
    with pytest.raises(FileError, match=message):
        open_public(folder)


def test_files_are_hashed_before_they_are_parsed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object) -> None:
        raise AssertionError("parsed")

    for name in ("parse_raw", "parse_tokenizer"):
        monkeypatch.setattr(public_folder, name, never)
    monkeypatch.setattr("tacita.plans.plan.parse", never)
    (folder / EMBEDDING).write_bytes(b"other")
    with pytest.raises(FileError, match="does not match its hash"):
        open_public(folder)


def test_files_are_capped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(public_folder.CAPS, PLAN, 100)
    with pytest.raises(FileError, match=r"plan\.json: more than 100 bytes"):
        open_public(folder)
