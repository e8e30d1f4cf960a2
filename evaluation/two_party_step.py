"""A token of a tiny GPT-2 in the two-party mode beside the same step by SPU's CHEETAH, in one run.

    python evaluation/two_party_step.py --python PEER/bin/python --json F

Two layers of width 128, two heads, 512 wide, 64 tokens kept as shares, 2,048 words; the largest logit is
found on shares. The peer runs a case that is put into its script (`two_party_peer.py` says how to make PEER):
one row through both layers, keys and values of 64 tokens as secret inputs, GELU in four segments, arg-max by
its own operation. Ours is `python -m bench generate --shape gpt2-tiny`: a token behind a prompt of 64, with
its part of what is prepared for 32, by `--new-tokens 33`. Both over bare TCP in a network namespace of their
own, a core each; bytes are the loopback's for the peer and the channels' for ours.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from two_party_peer import SCRIPT, best_trial, namespaced

KEPT, NEW = 64, 33
MARK = '    if c == "warm":\n'
CASE = """    if c == "step_tiny":
        T, D, h, F, V = {kept}, 128, 2, 512, 2048
        r = lambda *s: (rng.standard_normal(s) / np.sqrt(s[0])).astype(np.float32)
        ws, kept = [], []
        for _ in range(2):
            ws += [r(D, D), r(D, D), r(D, D), r(D, D), r(D, F), r(F, D)]
            kept += [rng.standard_normal((h, T, D // h)).astype(np.float32) for _ in range(2)]
        one, zero = np.ones(D, np.float32), np.zeros(D, np.float32)

        def heads(y):
            return y.reshape(1, h, D // h).transpose(1, 0, 2)

        def step(x, k0, v0, k1, v1, table, g, c, *w):
            for i, (ks, vs) in enumerate(((k0, v0), (k1, v1))):
                wq, wk, wv, wo, w1, w2 = w[6 * i : 6 * i + 6]
                y = ln(x, g, c)
                keys = jnp.concatenate([ks, heads(y @ wk)], axis=1)
                values = jnp.concatenate([vs, heads(y @ wv)], axis=1)
                scores = jnp.matmul(heads(y @ wq), keys.transpose(0, 2, 1)) * (1 / np.sqrt(D // h))
                mixed = jnp.matmul(softmax_cfg(scores), values).transpose(1, 0, 2).reshape(1, D)
                x = x + mixed @ wo
                x = x + seg4gelu(ln(x, g, c) @ w1) @ w2
            return jnp.argmax(ln(x, g, c) @ table, axis=-1)

        x = rng.standard_normal((1, D)).astype(np.float32)
        shared = [(SEC, -1)] * 5
        return step, [x, *kept, r(D, V), one, zero, *ws], shared + [(PRV, 1)] * (3 + len(ws))
"""


def peer(options: argparse.Namespace) -> dict[str, Any]:
    """Its trial with the least CPU seconds."""
    source = options.script.read_text(encoding="utf-8")
    if source.count(MARK) != 1:
        sys.exit(f"{options.script}: not the script that this case was written for")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "step.py"
        script.write_text(source.replace(MARK, CASE.format(kept=KEPT) + MARK))
        best, _ = best_trial(script, "step_tiny", options)
    return {
        "wall_seconds": best["wall"],
        "cpu_seconds": [best["cpu0"], best["cpu1"]],
        "megabytes": best["MB"],
        "same_token": best["maxerr"] == 0.0,
    }


def ours(options: argparse.Namespace) -> dict[str, Any]:
    """The mean of the tokens behind the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words: list[Any] = [sys.executable, "-m", "bench", "generate", "--plain"]
        words += ["--shape", "gpt2-tiny", "--prompt-tokens", KEPT, "--new-tokens", NEW, "--json", report]
        namespaced(words, options.timeout)
        found = json.loads(report.read_text())
    return {**found["token"], "agreement": found["agreement"]}


def main() -> None:
    """See the module."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--python", type=Path, required=True, help="of the environment with spu")
    options.add_argument("--script", type=Path, default=SCRIPT)
    options.add_argument("--trials", type=int, default=3)
    options.add_argument("--timeout", type=float, default=1200.0, help="seconds for one command")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    theirs, mine = peer(given), ours(given)
    cpu = [sum(one["cpu_seconds"]) for one in (theirs, mine)]
    figures = {
        "peer": theirs,
        "ours": mine,
        "cpu_times_less": cpu[0] / cpu[1],
        "megabytes_times_less": theirs["megabytes"] / mine["megabytes"],
    }
    print(json.dumps(figures, indent=1))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
