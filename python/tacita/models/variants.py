"""Families of BERT's layers, which differ from BERT in names, sizes and heads: RoBERTa with XLM-RoBERTa and
CamemBERT, MPNet, DistilBERT, ELECTRA, ALBERT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tacita.blocks.base import Dense, Relative
from tacita.models import layers
from tacita.models.bert import OPTIONS, bert_layer, bert_sizes, layer_prefix
from tacita.models.config import EncoderConfig, Names, tied
from tacita.models.fields import Fields
from tacita.models.layers import (
    MODEL,
    WITHOUT_POOLER,
    Family,
    Layer,
    Step,
    architectures,
    forward_of,
    pooler_and_classifier,
)
from tacita.texts.embedding import MAX_HIDDEN
from tacita.texts.embedding import WORDS as WORD_TABLE
from tacita.texts.task import TEXT, WORDS

NO_POOLER = OPTIONS | {"pooling": WITHOUT_POOLER}


def two_maps(m: EncoderConfig, function: str) -> Sequence[Step]:
    """Returns the steps of a classifier of texts of two maps, with a function between them."""
    inner = Step("classifier.dense", Dense("classifier.dense", m.hidden, m.hidden), function)
    return [inner, *layers.classifier(m, "classifier.out_proj")]


# RoBERTa: positions begin after the padding's.

MOST_PADDING = 1 << 10
PADDING = 1  # the token of padding; the first real position is the next


class RobertaConfig(EncoderConfig):
    """The configuration of a RoBERTa model; fields: see `EncoderConfig`."""


def _read_roberta(f: Fields, **answer: Any) -> RobertaConfig:
    first = f.integer("pad_token_id", MOST_PADDING, default=PADDING, least=0) + 1
    sizes = bert_sizes(f) | {"positions": f.positions("max_position_embeddings", first)}
    return RobertaConfig(**sizes, first_position=first, **answer)


def _roberta_steps(m: EncoderConfig) -> Sequence[Step]:
    if m.task == WORDS:
        return layers.words(m, ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"), "gelu")
    if m.task == TEXT and m.labels:
        return two_maps(m, "tanh")
    return pooler_and_classifier(m)


LM_HEAD = tied("lm_head.decoder", "lm_head.bias", WORD_TABLE)
ROBERTA = Family(
    RobertaConfig,
    OPTIONS,
    forward_of(bert_layer, _roberta_steps),
    _read_roberta,
    lambda m: Names(("roberta.",), also=LM_HEAD),
    architectures("Roberta", "XLMRoberta", "Camembert"),
    ("roberta", "xlm-roberta", "camembert"),
)


# MPNet (arXiv 2004.09297): no token types; scores get a bias by the distance of key and query, the same in
# every layer. Positions and heads are RoBERTa's.

TABLE = "encoder.relative_attention_bias.weight"
BUCKETS, DISTANCE = 32, 128  # fixed in the implementation
MPNET_PARTS = {
    "attention.self.query": "attention.attn.q",
    "attention.self.key": "attention.attn.k",
    "attention.self.value": "attention.attn.v",
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
}


class MPNetConfig(EncoderConfig):
    """The configuration of an MPNet model; fields: see `EncoderConfig`."""


def _read_mpnet(f: Fields, **answer: Any) -> MPNetConfig:
    first = PADDING + 1  # fixed in the implementation, whatever pad_token_id says
    positions = f.positions("max_position_embeddings", first)
    sizes = bert_sizes(f) | {"positions": positions, "types": 0}
    f.only("relative_attention_num_buckets", BUCKETS)
    return MPNetConfig(**sizes, first_position=first, **answer)


def _mpnet_layer(m: EncoderConfig, i: int) -> Layer:
    layer, relative = bert_layer(m, i), Relative(TABLE, BUCKETS, DISTANCE)
    return replace(layer, attention=replace(layer.attention, relative=relative))


MPNET = Family(
    MPNetConfig,
    OPTIONS,
    forward_of(_mpnet_layer, _roberta_steps),
    _read_mpnet,
    lambda m: Names(("mpnet.",), MPNET_PARTS, LM_HEAD),
    architectures("MPNet"),
    ("mpnet",),
)


# DistilBERT (arXiv 1910.01108): other names, no token types, no pooler; classifiers read the first token
# through a ReLU.

DISTILBERT_PARTS = {
    "encoder.layer.": "transformer.layer.",
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


class DistilBertConfig(EncoderConfig):
    """The configuration of a DistilBERT model; fields: see `EncoderConfig`."""


def _read_distilbert(f: Fields, **answer: Any) -> DistilBertConfig:
    """Reads config.json. Sinusoidal positions are stored as a table like others."""
    f.only("pruned_heads", {})
    return DistilBertConfig(
        **f.sizes("n_layers", "dim", "n_heads", intermediate="hidden_dim"),
        activation=f.activation("activation", "gelu"),
        norm_eps=1e-12,  # fixed in the implementation
        **answer,
    )


def _distilbert_steps(m: EncoderConfig) -> Sequence[Step]:
    if m.task == WORDS:
        return layers.words(m, ("vocab_transform", "vocab_layer_norm", "vocab_projector"), m.activation)
    if m.task == TEXT and m.labels:
        inner = Step("pre_classifier", Dense("pre_classifier", m.hidden, m.hidden), "relu")
        return [inner, *layers.classifier(m)]
    return layers.classifier(m)


PROJECTOR = tied("vocab_projector", "vocab_projector.bias", WORD_TABLE)
DISTILBERT = Family(
    DistilBertConfig,
    NO_POOLER,
    forward_of(bert_layer, _distilbert_steps),
    _read_distilbert,
    lambda m: Names(("distilbert.",), DISTILBERT_PARTS, PROJECTOR),
    architectures("DistilBert"),
    ("distilbert",),
)


# ELECTRA (arXiv 2003.10555): a projection of smaller embeddings; no pooler; classifiers of two maps with
# GELU. A discriminator's own head is left out: its folder is an encoder.


class ElectraConfig(EncoderConfig):
    """The configuration of an ELECTRA model; fields: see `EncoderConfig`."""


def _read_electra(f: Fields, **answer: Any) -> ElectraConfig:
    sizes, size = bert_sizes(f), f.integer("embedding_size", MAX_HIDDEN)
    return ElectraConfig(**sizes, embedding_size=0 if size == sizes["hidden"] else size, **answer)


def _electra_steps(m: EncoderConfig) -> Sequence[Step]:
    if m.task == WORDS:
        at = "generator_predictions"
        return layers.words(m, (f"{at}.dense", f"{at}.LayerNorm", "generator_lm_head"), "gelu")
    return two_maps(m, "gelu") if m.task == TEXT and m.labels else layers.classifier(m)


GENERATOR = tied("generator_lm_head", "generator_lm_head.bias", WORD_TABLE)
ELECTRA = Family(
    ElectraConfig,
    NO_POOLER,
    forward_of(bert_layer, _electra_steps),
    _read_electra,
    lambda m: Names(("electra.",), {"embeddings.projection": "embeddings_project"}, GENERATOR),
    architectures("Electra", ForPreTraining=MODEL),
    ("electra",),
)


# ALBERT (arXiv 1909.11942): one layer, applied again and again, after a projection of smaller embeddings.
#
# Each layer has names of its own, for which the one tensor of the file stands: whoever changes a layer, as
# `planning.calibrate.temper` does, changes no other.

SHARED = "encoder.albert_layer_groups.0.albert_layers.0."
ALBERT_PARTS = {
    "embeddings.projection": "encoder.embedding_hidden_mapping_in",
    "attention.self.": "attention.",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
    "pooler.dense": "pooler",
}


class AlbertConfig(EncoderConfig):
    """The configuration of an ALBERT model; fields: see `EncoderConfig`."""


def _read_albert(f: Fields, **answer: Any) -> AlbertConfig:
    """Reads config.json. Layers in several groups are refused: no published model has them."""
    f.only("num_hidden_groups", 1)
    f.only("inner_group_num", 1)
    sizes, size = bert_sizes(f), f.integer("embedding_size", MAX_HIDDEN)
    sizes["activation"] = f.activation("hidden_act", "gelu_new")
    return AlbertConfig(**sizes, embedding_size=size, **answer)


def _albert_names(m: EncoderConfig) -> Names:
    shared = {layer_prefix(i): SHARED for i in range(m.layers)}
    also = tied("predictions.decoder", "predictions.bias", WORD_TABLE)
    return Names(("albert.",), shared | ALBERT_PARTS, also)


def _albert_steps(m: EncoderConfig) -> Sequence[Step]:
    if m.task == WORDS:
        at = "predictions"
        return layers.words(m, (f"{at}.dense", f"{at}.LayerNorm", f"{at}.decoder"), m.activation)
    return pooler_and_classifier(m)


ALBERT = Family(
    AlbertConfig,
    OPTIONS,
    forward_of(bert_layer, _albert_steps),
    _read_albert,
    _albert_names,
    architectures("Albert", ForPreTraining=WORDS),
    ("albert",),
    pooling="pooler",
)
