"""Products of coefficients on the real engine at a toy ring: the layout, a product, a refresh behind it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encrypted import make_engine, toy

from bench.__main__ import main
from bench.kernels.feed_forward import TABLES, LeafShape, read_table
from bench.kernels.leaf import predicted_bytes
from tacita import resources
from tacita.approx import FitError, Table
from tacita.approx.fourier import FourierSpec, fit
from tacita.errors import InputError, KeyMissingError
from tacita.slots.bootstraps import PHASE, RATIO, CoefficientLayout, CoefficientMatrix
from tacita.slots.ckks import CkksBackend

native = pytest.importorskip("tacita._native", reason="the native engine is not built: make setup")
pytestmark = pytest.mark.native

PRESET, TOKENS = "insecure_toy_n10", 8


class Engine:
    def __init__(self, folder: Path) -> None:
        self.params = toy(PRESET)
        made = make_engine(self.params, native.coefficient_rotations(self.params), folder, threads=2)
        self.secret, self.public, self.evaluator = made.secret, made.keys, made.evaluator
        self.keys = native.CoefficientKeys.generate(self.secret, TOKENS)
        self.maps = native.Coefficients(self.evaluator, self.keys)

    def layout(self, size: int) -> CoefficientLayout:
        return CoefficientLayout(self.params.slots, TOKENS, size)

    def encrypt(self, tensor: Any, level: int = 1) -> list[Any]:
        vectors = self.layout(tensor.shape[1]).pack(tensor)
        return [native.encrypt(self.secret, v, level) for v in vectors]

    def product(self, cts: list[Any], weights: Any, features: int) -> list[Any]:
        blocks = self.maps.descend(self.maps.to_coefficients(cts), features)
        return list(self.maps.ascend(self.maps.multiply(blocks, weights)))

    def decrypt(self, cts: list[Any], size: int) -> Any:
        return self.layout(size).unpack([self.secret.decrypt(ct) for ct in cts])


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(tmp_path_factory.mktemp("coefficients"))


def test_the_layout_is_the_engines(engine: Engine) -> None:
    features, block, ratio = engine.maps.shape
    layout = engine.layout(1)
    assert (layout.features, layout.block, RATIO) == (features, block, ratio)
    assert native.PHASE == PHASE


def test_a_product_is_that_of_floats_and_takes_its_own_results(engine: Engine) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.0, 1.0, (TOKENS, 150))
    w1, b1 = rng.uniform(-0.02, 0.02, (70, 150)), rng.uniform(-0.1, 0.1, 70)
    w2 = rng.uniform(-0.05, 0.05, (130, 70))
    low = engine.product(engine.encrypt(x), engine.maps.weights(w1, b1), 150)
    y = engine.maps.refresh(low)
    assert y[0].level == engine.params.max_level
    assert np.abs(engine.decrypt(y, 70) - (x @ w1.T + b1)).max() < 2.0**-17
    low = engine.product(y, engine.maps.weights(w2), 70)
    z = engine.decrypt(engine.maps.refresh(low), 130)
    assert np.abs(z - (x @ w1.T + b1) @ w2.T).max() < 2.0**-16


def test_a_refresh_through_a_function_follows_a_product(engine: Engine) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.uniform(-1.0, 1.0, (TOKENS, 16)), rng.uniform(-0.06, 0.06, (16, 16))
    spec = fit("tanh", lambda u: np.tanh(4.0 * u), (-1.0, 1.0), (-1.0, 1.0), 1e-4)
    assert isinstance(spec, FourierSpec)
    low = engine.product(engine.encrypt(x), engine.maps.weights(w), 16)
    found = engine.decrypt(engine.maps.refresh(low, spec.harmonics), 16)
    assert np.abs(found - np.tanh(4.0 * x @ w.T)).max() < 2e-4


@pytest.mark.parametrize("name", ["step", "sign", "relu", "shuffled"])
def test_a_refresh_through_a_table_gives_its_values(engine: Engine, name: str) -> None:
    """Whole numbers from -8 to 8 by an encrypted product, and the table of each."""
    rng = np.random.default_rng(4)
    points = np.arange(-8.0, 9.0)
    values = rng.permutation(17).astype(float) if name == "shuffled" else TABLES[name](points)
    table = Table(tuple(points), tuple(map(float, values)))
    spec, size = table.fit(name, 1e-4 * values.max()), values.max()
    x, w = rng.choice([-1.0, 1.0], (TOKENS, 16)), np.zeros((24, 16))
    w[np.arange(24), rng.integers(16, size=24)] = np.arange(24) % 9 / 8.0
    low = engine.product(engine.encrypt(x), engine.maps.weights(w), 16)
    found = size * engine.decrypt(engine.maps.refresh(low, spec.harmonics / size, 1), 24)
    wanted = table.numpy(8.0 * x @ w.T)
    assert len(np.unique(wanted)) == len(np.unique(values))
    assert np.abs(found - wanted).max() <= 1.1 * spec.error  # what the slots' scale rounds, beside


def ended_within_a_minute(work: Callable[[], Any], threads: int) -> int:
    """Runs `work` in so many threads at once and returns in how many it ended."""
    done: list[Any] = []
    started = [threading.Thread(target=lambda: done.append(work()), daemon=True) for _ in range(threads)]
    deadline = time.monotonic() + 60
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(max(0.0, deadline - time.monotonic()))
    return len(done)


def test_refreshes_run_at_once_on_a_fresh_evaluator(engine: Engine) -> None:
    """All of them need matrices that none has made yet: no lock is held while they are made."""
    low = engine.product(engine.encrypt(np.zeros((TOKENS, 16))), engine.maps.weights(np.eye(16)), 16)
    harmonics = np.array([0.0, -0.3j, 0.0, 0.05])
    for _ in range(20):
        maps = native.Coefficients(native.Evaluator(engine.params, engine.public, 2), engine.keys)
        assert ended_within_a_minute(partial(maps.refresh, low, harmonics, 1), threads=6) == 6


def test_what_does_not_fit_is_refused(engine: Engine) -> None:
    ct = engine.encrypt(np.zeros((TOKENS, 16)), 0)
    with pytest.raises(native.LevelError, match="needs 1 more level"):
        engine.maps.to_coefficients(ct)
    low = engine.maps.to_coefficients(engine.encrypt(np.zeros((TOKENS, 16))))
    with pytest.raises(native.TacitaError, match="1 ciphertexts for 200 features"):
        engine.maps.descend(low, 200)
    blocks = engine.maps.descend(low, 16)
    with pytest.raises(native.TacitaError, match="do not fit"):
        engine.maps.multiply(blocks, engine.maps.weights(np.zeros((4, 17))))
    with pytest.raises(native.TacitaError, match="weights"):
        engine.maps.weights(np.full((4, 4), np.nan))
    with pytest.raises(native.TacitaError, match="power of two"):
        native.CoefficientKeys.generate(engine.secret, 5)


def test_keys_of_another_client_are_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(native.ParameterError, match="clients"):
        native.Coefficients(engine.evaluator, Engine(tmp_path).keys)


def test_clients_share_matrices_and_refresh_under_their_own_keys(engine: Engine, tmp_path: Path) -> None:
    """What a shallow refresh keeps for all clients has no key of the first."""
    rng, other = np.random.default_rng(5), Engine(tmp_path)
    other.evaluator = engine.evaluator.with_keys(other.public)
    other.maps = native.Coefficients(other.evaluator, other.keys)
    spec = fit("tanh", lambda u: np.tanh(4.0 * u), (-1.0, 1.0), (-1.0, 1.0), 1e-4)
    assert isinstance(spec, FourierSpec)
    x, w = rng.uniform(-1.0, 1.0, (TOKENS, 16)), rng.uniform(-0.06, 0.06, (16, 16))
    for client in (engine, other):
        low = client.product(client.encrypt(x), client.maps.weights(w), 16)
        found = client.decrypt(client.maps.refresh(low, spec.harmonics, 1), 16)
        assert np.abs(found - np.tanh(4.0 * x @ w.T)).max() < 2e-4


def test_the_keys_of_a_plan_are_read_whole_or_refused(tmp_path: Path) -> None:
    """They follow the evaluation keys: none less, none more, none of another client or other tokens."""
    params = native.Parameters.preset(PRESET, allow_insecure=True)
    found = []
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        paths = [str(tmp_path / name / file) for file in ("secret.key", "evaluation.keys")]
        native.keygen(params, [], *paths, lambda _done, _total: None, TOKENS)
        found.append(Path(paths[1]).read_bytes())
    path = tmp_path / "evaluation.keys"

    def load(content: bytes, tokens: int | None = TOKENS) -> Any:
        path.write_bytes(content)
        return native.EvaluationKeys.load(str(path), params, [], tokens)

    mine, other = found
    keys = native.Evaluator(params, load(mine), 1).coefficient_keys
    assert keys is not None and keys.tokens == TOKENS
    start = mine.index(mine[:6], 1)  # the second header
    with pytest.raises(native.FormatError):
        load(mine, None)
    with pytest.raises(native.FormatError):
        load(mine, 2 * TOKENS)
    for cut in (len(mine) - 1, start + 40, start):
        with pytest.raises(native.FormatError):
            load(mine[:cut])
    with pytest.raises(native.FormatError, match="follow"):
        load(mine + b"x")
    with pytest.raises(native.FormatError, match="client"):
        load(mine[:start] + other[start:])
    damaged = bytearray(mine)
    damaged[start + 400] ^= 1
    with pytest.raises(native.FormatError, match="checksum"):
        load(bytes(damaged))


def test_products_of_other_tokens_have_no_keys(engine: Engine) -> None:
    be = CkksBackend(engine.evaluator)
    matrix = CoefficientMatrix(TOKENS, np.full((2, 3), 0.1), np.zeros(2))
    with pytest.raises(KeyMissingError, match="there are none"):
        be.coefficient_product(engine.encrypt(np.zeros((TOKENS, 3))), matrix)


def test_the_bench_reports_both_routes(tmp_path: Path) -> None:
    sizes = "--tokens", "8", "--hidden", "96", "--inner", "200"
    out = tmp_path / "leaf.json"
    assert main(["leaf", "--preset", PRESET, *sizes, "--json", str(out)]) == 2
    assert main(["leaf", "--preset", PRESET, "--allow-insecure", *sizes, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["poster"]["fc1_gelu_seconds"] == 53.4
    assert found["amortized_ms"]["PEGASUS"] == [749.0, 749.0] and found["amortized_ms"]["ours"][0] > 0.0
    assert 830.0 < found["log_q"]["refresh"] < 840.0 < found["log_q"]["chain"] < found["log_qp"]
    for route in ("leaf", "slots"):
        assert 0 < found[route]["fc1_gelu_seconds"] < found[route]["seconds"]
        assert found[route]["max_abs_error_gelu"] < 2 * 1e-3
        assert found[route]["max_abs_error"] < 2e-3


@pytest.mark.parametrize("name", ["relu", "file"])
def test_the_bench_compares_a_table_with_every_value(name: str, tmp_path: Path) -> None:
    table, out = tmp_path / "table.json", tmp_path / "leaf.json"
    table.write_text(json.dumps([[0.5 * x, x * x % 7] for x in range(-4, 6)]))
    sizes = "--tokens", "8", "--hidden", "40", "--inner", "100", "--allow-insecure"
    chosen = str(table) if name == "file" else name
    assert main(["leaf", "--preset", PRESET, *sizes, "--table", chosen, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert "slots" not in found
    assert (found["leaf"]["wrong_values"], found["leaf"]["values"]) == (0, 800)
    assert found["leaf"]["max_abs_error_gelu"] < 2e-4 * 8


@pytest.mark.parametrize(
    "content",
    [
        *("", "{}", "[1, 2]", "[[0, 1, 2], [1, 2, 3]]", "[[0, 1]]", "[[0, 1], [1, null]]"),
        *("[[1, 0], [0, 1]]", "[[0, 1], [1, 0], [3, 1]]"),
        pytest.param("[" * 20000, id="deep"),
        pytest.param(" " * 70000 + "[[0, 1], [1, 0]]", id="long"),
    ],
)
def test_the_bench_refuses_what_is_no_table(content: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(content)
    with pytest.raises((InputError, FitError), match="table"):
        read_table(str(path), (-8.0, 8.0))


def test_the_bench_names_its_tables_where_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--table .*none\.json") as refused:
        read_table(str(tmp_path / "none.json"), (-8.0, 8.0))
    assert refused.value.hint == "step, sign, relu, or a file"


def test_the_bench_refuses_a_block_beyond_its_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: 2_000_000_000)
    params, small, large = toy(PRESET), LeafShape(8, 96, 200), LeafShape(8, 4096, 14336)
    assert predicted_bytes(small, params, True) < 4e8 < 2.9e9 < predicted_bytes(large, params, True) < 3.4e9
    sizes = "--tokens", "8", "--hidden", "4096", "--inner", "14336", "--allow-insecure"
    assert main(["leaf", "--preset", PRESET, *sizes]) != 0
    assert "a block of 4096 x 14336 needs 3." in capsys.readouterr().err
