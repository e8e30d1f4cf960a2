"""The table of presets: which bootstrap, and which leveled ring is the smallest for a circuit."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plans
import pytest
from tiny import inputs

from tacita import api
from tacita.cli import main
from tacita.client import session
from tacita.errors import FileError, KeyBudgetWarning
from tacita.plans.files import Workdir
from tacita.plans.plan import Plan
from tacita.plans.presets import LEVELED, PRESETS, answers_of_a_key, budget_warning, can_bootstrap
from tacita.texts.task import CHOICE
from tacita.two_party.limits import LONGEST_SAFE, texts_of_a_key


def test_only_presets_with_the_primes_bootstrap() -> None:
    assert can_bootstrap(PRESETS["n16"])
    assert can_bootstrap(PRESETS["insecure_toy_n11"])
    assert not any(can_bootstrap(p) for name, p in PRESETS.items() if "leveled" in name)
    assert [name for name, p in PRESETS.items() if p.security_bits < 128] == [
        n for n in PRESETS if "insecure" in n
    ]


def test_deeper_presets_are_larger_rings() -> None:
    depths = [PRESETS[f"n{n}_leveled"].max_level for n in sorted(LEVELED)]
    assert depths == sorted(depths)


# Answers of a key are counted beside it, and more of them than its budget are warned of.

KEY = "ab" * 16


def plan_of(preset: str, size: int = 2, **fields: Any) -> Plan:
    """Two logits to 0.001 within 2.9, unless something else is said."""
    plan = plans.real_plan()
    layout = replace(plan.layout, response=replace(plan.layout.response, size=size))
    usual = {"answer": 2.9, "decimals": 3, "noise": 2.0**-20}
    return replace(plan, parameters=PRESETS[preset], layout=layout, **(usual | fields))


def test_the_budget_is_what_leaves_128_bits() -> None:
    assert answers_of_a_key(plan_of("n16")) == 37
    assert answers_of_a_key(plan_of("n16_leveled")) == 7
    assert answers_of_a_key(plan_of("insecure_toy_n10")) is None  # a key that keeps nothing
    assert answers_of_a_key(plan_of("n16", size=2048)) == 1
    assert answers_of_a_key(plan_of("n16", decimals=0, noise=2.0**-6)) == 927 // (2 * np.log2(5.8))
    choice = plan_of("n16", size=2048, answer=1.5, decimals=1, gap=0.05)
    choice = replace(choice, model=replace(choice.model, task=CHOICE))
    assert answers_of_a_key(choice) == int(927.5 / (11 + np.log2(30)))  # the word and its share
    assert (texts_of_a_key(2), texts_of_a_key(4096), LONGEST_SAFE) == (63, 1, 127)


def test_only_answers_beyond_the_budget_are_warned_of() -> None:
    assert budget_warning(plan_of("n16"), 37) is None
    assert str(budget_warning(plan_of("n16"), 38)).startswith("38 answers were decrypted with this key; more")
    assert budget_warning(plan_of("insecure_toy_n10"), 1 << 40) is None


def test_answers_are_counted_for_each_key_and_by_every_process(tmp_path: Path) -> None:
    work = Workdir(tmp_path)
    work.secret_key.touch(0o600)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: session.count_answers(work, KEY, 3), range(40)))
    assert sorted(found) == list(range(3, 121, 3))
    assert stat.S_IMODE(work.key_use.stat().st_mode) == 0o600
    assert session.count_answers(work, "cd" * 16, 1) == 1  # another key
    for damaged in ("", "[]", '{"key": "%s"}' % ("cd" * 16), '{"key": "%s", "answers": -1}' % ("cd" * 16)):
        work.key_use.write_text(damaged)
        with pytest.raises(FileError, match=r"secret\.key\.use: damaged count"):
            session.count_answers(work, "cd" * 16, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"secret.key", "secret.key.use"}


def test_decrypting_counts_and_warns_once_the_budget_is_used_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
    plan, model = plans.real_plan(), plans.model()
    monkeypatch.setattr("tacita.plans.presets.answers_of_a_key", lambda plan: 84)
    api.publish(plan, model, tmp_path / "public")
    client = api.Client(tmp_path / "public", tmp_path, allow_insecure=True)
    client.keygen()
    client.encrypt(hidden_states=inputs(model, plans.TOKENS, 8, 5)[0])
    api.Server(plan, model, tmp_path, allow_insecure=True, threads=1).evaluate()
    key = session.load_secret(plan, client.work, allow_insecure=True).key_id
    assert session.count_answers(client.work, key, 83) == 83

    folders = ["--public", str(tmp_path / "public"), "--work", str(tmp_path)]
    decrypt = ["decrypt", *folders, "--allow-insecure"]
    assert main(decrypt) == 0 and "warning" not in capsys.readouterr().err  # number 84
    assert main(decrypt) == 0 and "warning: 85 answers were decrypted" in capsys.readouterr().err
    with pytest.warns(KeyBudgetWarning, match="86 answers"):
        client.decrypt()
    own = api.Client(tmp_path / "public", tmp_path, allow_insecure=True, one_user=True)
    assert own.decrypt().trusted  # counted, and nobody else sees it

    response = client.work.response.read_bytes()
    client.work.response.write_bytes(response[:-1])
    assert main(decrypt) == 2  # nothing was decrypted
    assert json.loads(client.work.key_use.read_text()) == {"key": key, "answers": 87}
    client.keygen()
    assert (
        session.count_answers(
            client.work, session.load_secret(plan, client.work, allow_insecure=True).key_id, 1
        )
        == 1
    )
