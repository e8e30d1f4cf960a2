"""Classifies texts by a model of your own, without showing it the texts.

    python examples/classify_own_model.py MODEL "a film of quiet beauty" "a waste of time"

MODEL is a Hugging Face folder, a name on the Hub or one that comes with the package, such as sst2-tiny. Both
sides run on this machine, over a connection of their own; server_and_client.py takes them apart.
"""

from __future__ import annotations

import argparse

import tacita


def main() -> None:
    """Prints a line a text: the label, its score, the text."""
    parser = argparse.ArgumentParser(description="Classify texts privately.")
    parser.add_argument("model")
    parser.add_argument("text", nargs="+")
    options = parser.parse_args()
    model = tacita.load(options.model)
    answers = tacita.classify(options.text, model=model, backend="ckks", scheme="bumblebee", tokens=32)
    for text, answer in zip(options.text, answers, strict=True):
        assert isinstance(answer, tacita.Classes)  # a model of several labels at once, or of none, is no such
        print(f"{answer.label:<12} {answer.scores[0].score:.3f}  {text}")
    print(f"protected by: {answers[0].privacy}")


if __name__ == "__main__":
    main()
