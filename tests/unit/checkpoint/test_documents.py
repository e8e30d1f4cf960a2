"""Files of a server's documents: a text file that the model embeds, arrays, an index; titles."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import make_random_checkpoint

from tacita.checkpoint import documents
from tacita.checkpoint.documents import document_names, read_documents, titles_of, with_documents
from tacita.checkpoint.reference import reference
from tacita.checkpoint.texts import load_texts
from tacita.errors import FileError, InputError
from tacita.progress import Progress
from tacita.texts.embed import embed
from tacita.texts.vectors import Index

DOCUMENTS = ("a fine film", "the plot is dull", "never boring , very good")
MODEL = make_random_checkpoint(layers=1, labels=(), pooling="mean", normalise=True, positions=16)


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_lines_are_embedded_as_floats_embed_them(tmp_path: Path) -> None:
    seen: list[Progress] = []
    path = written(tmp_path, "docs.txt", "the \u2028 plot\r\nis\x0cdull\n")
    assert document_names(path) == load_texts(path) == ("the \u2028 plot", "is\x0cdull")
    path = written(tmp_path, "docs.txt", "\n".join((" a fine film", "", *DOCUMENTS[1:])))
    index = read_documents(path, MODEL, seen.append)
    assert index.texts == document_names(path) == DOCUMENTS and index.sha256 == MODEL.sha256
    wanted = [reference(MODEL, *embed(MODEL, text, 16)).logits for text in DOCUMENTS]
    assert np.abs(index.vectors - wanted).max() < 1e-12
    assert [now.index for now in seen] == [1, 2, 3] and seen[-1].left == 0.0


def test_arrays_of_others_are_taken(tmp_path: Path) -> None:
    path, vectors = tmp_path / "docs.npz", np.eye(3, MODEL.config.hidden, dtype=np.float32)
    np.savez(path, vectors=vectors, names=np.array(["a", "b", "c"]))
    index = read_documents(path, MODEL)
    assert index.texts == document_names(path) == ("a", "b", "c") and np.array_equal(index.vectors, vectors)
    assert with_documents(MODEL, index, titles_of(index)).config.labels == ("a", "b", "c")
    np.savez(path, vectors=vectors)
    assert document_names(path) == ("0", "1", "2")
    index.save(tmp_path / "docs.index")
    assert read_documents(tmp_path / "docs.index", MODEL).texts == ("a", "b", "c")


@pytest.mark.parametrize(
    "arrays",
    [
        {"other": np.eye(3)},
        {"vectors": np.eye(3)[0]},
        {"vectors": np.eye(3), "names": np.array(["a"])},
        {"vectors": np.full((2, 2), np.nan)},
        {"vectors": np.array(["a", "b"])},
        {"vectors": np.array([{}], object)},
        {"vectors": np.zeros((0, 3))},
    ],
)
def test_arrays_that_are_no_documents_are_refused(arrays: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "docs.npz", **arrays)
    with pytest.raises(FileError, match=r"docs\.npz"):
        read_documents(tmp_path / "docs.npz", MODEL)


def test_files_that_hold_no_documents_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {"docs.txt": "\n \n", "docs.npz": "no zip", "docs.index": "no index"}
    for path in (written(tmp_path, name, text) for name, text in cases.items()):
        with pytest.raises(FileError, match=path.name):
            read_documents(path, MODEL)
        with pytest.raises(FileError, match=path.name):
            document_names(path)
    with pytest.raises(FileError, match="cannot be read"):
        read_documents(tmp_path / "missing.txt", MODEL)
    monkeypatch.setattr(documents, "MAX_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("vectors.npy", bytes(2000))
    for path in (tmp_path / "bomb.npz", written(tmp_path, "long.txt", "a" * 1001)):
        with pytest.raises(FileError, match="over 1000 bytes"):
            read_documents(path, MODEL)


def test_what_no_search_takes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="document 2 has 19 tokens, the model takes 16"):
        read_documents(written(tmp_path, "docs.txt", "a film\n" + "film " * 17), MODEL)
    with pytest.raises(InputError, match="vectors of 3 numbers, the model's have 16"):
        with_documents(MODEL, Index(MODEL.name, "", ("a",), np.ones((1, 3))))
    monkeypatch.setattr(documents, "MAX_DOCUMENTS", 2)
    with pytest.raises(InputError, match="3 documents, a search takes at most 2"):
        read_documents(written(tmp_path, "docs.txt", "a\nfilm\nis"), MODEL)


def test_titles_are_printable_and_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index("m", "", ("a\x1b[31m\nfilm", " ", "x" * 300), np.eye(3))
    assert titles_of(index) == ("a [31m film", "1", "x" * 200)
    monkeypatch.setattr(documents, "MOST_TITLES", 200)
    with pytest.raises(InputError, match="a client takes 200"):
        titles_of(index)
