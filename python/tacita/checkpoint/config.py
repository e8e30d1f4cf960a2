"""config.json -> a configuration: every field that changes the meaning of the weights is read or refused.

Which family reads it, `architectures` says, or `model_type` where there are none. Here is what all families
share: the head, its labels, and what a text's vector is read from. What an embedding is read from, the files
of sentence-transformers say (`checkpoint.texts`); what a classifier was trained on, its family.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacita.checkpoint.gguf import fields_of, gguf_of
from tacita.checkpoint.texts import ALONE, MODULES, ORDERS, Sentences, read_sentences
from tacita.errors import CheckpointError
from tacita.models.config import EVERY_TOKEN, LAST, LATEST, Names
from tacita.models.fields import Fields, read_json
from tacita.models.layers import CLASS, MODEL, Family
from tacita.models.registry import FAMILIES, Config, named
from tacita.texts.embedding import MAX_CLASSES
from tacita.texts.task import NEXT, SINGLE_LABEL, SPAN, TEXT, TOKENS, WORDS

POOLED = {TEXT: "cls", NEXT: LAST}  # the others answer for every token
POOLER = "pooler.dense.weight"


def read_config(
    folder: Path, pooling: str | None, embeddings: bool, stored: Callable[[], Collection[str]]
) -> Config:
    """Reads the configuration of a folder, or of a GGUF file. stored: the names of its tensors, asked for
    only where they decide.

    Errors: CheckpointError naming file, field, value and what is supported.
    """
    file = gguf_of(folder)
    fields = fields_of(file) if file else Fields(folder / "config.json", read_json(folder / "config.json"))
    family, head = _family_and_head(fields)
    if fields.data.get("quantization_config") is not None:
        fields.refuse("quantization_config", "take the model in single, half or brain precision")
    if head == WORDS and pooling != EVERY_TOKEN and (pooling is not None or (folder / MODULES).is_file()):
        head = MODEL  # an encoder that was trained on words, asked for vectors
    config: Any = family.read(fields, embeddings=embeddings, **_answer(fields, head))
    if head == WORDS and fields.data.get("tie_word_embeddings") is False:
        _require_decoder(fields, family.names(config), stored())
    if head == CLASS:
        stated = family.pooling
        if family.pooling_stated:
            stated = fields.name("classifier_pooling", ("cls", "mean"), stated)
        return _classifier(folder, config, pooling, stated)
    if head == MODEL:
        return _encoder(folder, config, pooling, family, stored)
    return _unpooled(folder, config, pooling)


def _require_decoder(fields: Fields, names: Names, stored: Collection[str]) -> None:
    """Refuses weights without the decoder of words, for which the table of words stands where they are
    tied."""
    own = replace(names, also={})
    for name in names.also:
        if name.endswith(".weight") and own.find(name, stored) is None:
            fields.refuse("tie_word_embeddings", f"the weights lack {name}")


def _family_and_head(fields: Fields) -> tuple[Family, str]:
    architectures = fields.data.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and len(architectures) == 1 else architectures
    try:
        family, head = named(name if name is None else str(name), fields.data.get("model_type"))
    except CheckpointError as error:
        raise CheckpointError(f"{fields.path}: {error.args[0]}", hint=error.hint) from None
    return FAMILIES[family], head


def _answer(fields: Fields, head: str) -> dict[str, Any]:
    """The fields of a configuration that follow from the head."""
    labels: tuple[str, ...] = ("start", "end") if head == SPAN else ()
    if head in (CLASS, TOKENS):
        labels = fields.labels()
    problem = fields.problem(len(labels)) if head == CLASS else SINGLE_LABEL
    task = TEXT if head in (MODEL, CLASS) else head
    return {"task": task, "labels": labels, "problem": problem, "pooling": POOLED.get(task, EVERY_TOKEN)}


def _unpooled(folder: Path, config: Config, pooling: str | None) -> Config:
    """The task says which tokens are read. What a plan on ciphertexts says of a decoder, whose rows slots
    reverse (`packings.lowering.in_slots`), means the same model, with the same hash."""
    supported = (None, config.pooling, *([LATEST] if config.task == NEXT else []))
    if pooling not in supported:
        of = "with the next token" if config.task == NEXT else "for every token"
        raise CheckpointError(
            f"{folder}: pooling {pooling!r}, the model answers {of}", hint="leave --pooling out"
        )
    if config.task == NEXT and (folder / MODULES).is_file():
        raise CheckpointError(
            f"{folder / MODULES}: a decoder that gives vectors or scores", hint="take an encoder for them"
        )
    if config.task == WORDS and config.vocab > MAX_CLASSES:
        raise CheckpointError(
            f"{folder}: scores of {config.vocab} words for every token, at most {MAX_CLASSES} are computed",
            hint="for vectors of texts, say --pooling cls or --pooling mean",
        )
    return config


def _classifier(folder: Path, config: Any, pooling: str | None, stated: str) -> Config:
    """A classifier was trained on one pooling, which its family states."""
    if pooling not in (None, stated):
        raise CheckpointError(
            f"{folder}: pooling {pooling!r}, the classifier was trained on {stated!r}",
            hint="leave --pooling out",
        )
    files = None if pooling else read_sentences(folder, config.hidden, orders=(*ORDERS, ALONE))
    if files and (files.pooling != stated or files.normalise):
        raise CheckpointError(
            f"{folder}: modules.json describes another answer ({files.pooling}) than the classifier's "
            f"({stated})",
            hint=f"--pooling {stated} classifies; for embeddings, architectures must say BertModel or alike",
        )
    pooled: Config = replace(config, pooling=stated)
    return pooled


def _encoder(
    folder: Path,
    config: Any,
    pooling: str | None,
    family: Family,
    stored: Callable[[], Collection[str]],
) -> Config:
    """The user's word, else the folder's files, else the family's own (`vector_pooling`), which is the pooler
    if its weights are stored."""
    names = [name for name in family.options["pooling"] if name != EVERY_TOKEN]
    if pooling is not None and pooling not in names:
        raise CheckpointError(f"{folder}: pooling {pooling!r}", hint=f"supported: {', '.join(names)}")
    own = Sentences(pooling or family.vector_pooling(config), normalise=False)
    sentences = read_sentences(folder, config.hidden, pooling) or own
    pooled: Config = replace(config, pooling=sentences.pooling, normalise=sentences.normalise)
    if (
        pooling is None
        and sentences.pooling == "pooler"
        and ("pooler" not in names or family.names(pooled).find(POOLER, stored()) is None)
    ):
        raise CheckpointError(
            f"{folder}: nothing says how a text's vector is read from the last layer (no modules.json, no "
            "pooler weights)",
            hint="say --pooling cls or --pooling mean, as the model was trained",
        )
    return pooled
