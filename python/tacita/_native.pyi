"""The compiled engine as Python sees it. What each function does stands in full in `crates/py/src`.

Arrays must have exactly the element type that is written here and lie row by row in memory. A share is an
element of the ring of `bits` bits, a number below 2^bits; XOR shares of bits are 0 or 1, one to an element.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

_Complex = NDArray[np.complex128]
_Float = NDArray[np.float64]
_Shares = NDArray[np.uint64]
_Bits = NDArray[np.uint8]
_Integers = NDArray[np.int64]
_Rotations = Sequence[tuple[int, int]]  # steps, highest user level
_Link = str | tuple[float, float]  # "lan", "wan", or bits a second and seconds of a round trip

__all__ = [
    "PHASE",
    "Ciphertext",
    "CoefficientBlocks",
    "CoefficientKeys",
    "CoefficientWeights",
    "Coefficients",
    "EvaluationKeys",
    "Evaluator",
    "FormatError",
    "GoneError",
    "KeyMissingError",
    "LateError",
    "LevelError",
    "OpenclBootstrap",
    "ParameterError",
    "Parameters",
    "PeerError",
    "PreparedProduct",
    "Products",
    "SecretKey",
    "TableClient",
    "TableServer",
    "TacitaError",
    "TwoParty",
    "TwoPartyArrival",
    "TwoPartyListener",
    "certificate_fingerprint",
    "certificate_problem",
    "coefficient_rotations",
    "commit",
    "encrypt",
    "evaluation_keys",
    "generate_certificate",
    "hot_kernels_ms",
    "keygen",
    "limb_tasks",
    "ntt_ms",
    "opencl_devices",
    "opencl_room",
    "opencl_verify",
    "product_cost",
    "share_threads",
    "simd_path",
    "table_bytes",
    "two_party_pair",
    "yardstick_ms",
]

PHASE: float  # a bootstrap's turn of the circle for a slot of 1: `slots.bootstraps.harmonics`

# Errors

class TacitaError(Exception):
    """Any error of the engine."""

class LevelError(TacitaError):
    """No level left for an operation."""

class KeyMissingError(TacitaError):
    """An evaluation key is absent."""

class FormatError(TacitaError):
    """Bytes that are not what they should be."""

class ParameterError(TacitaError):
    """Unknown or insecure parameters."""

class PeerError(TacitaError):
    """The other party is gone, late, not trusted, or does not keep to the protocol."""

class LateError(PeerError):
    """The other party took longer than it may."""

class GoneError(PeerError):
    """The other party closed the connection."""

# Ciphertexts under one key

@final
class Parameters:
    """A preset of the engine. Levels are user levels: rescalings left, 0 to max_level."""

    @staticmethod
    def preset(name: str, *, allow_insecure: bool = False) -> Parameters:
        """Raises ParameterError for an unknown name, and below 128 bits unless allow_insecure is true."""
    @property
    def name(self) -> str: ...
    @property
    def log_n(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def max_level(self) -> int: ...
    @property
    def log_qp(self) -> float: ...
    def refresh_log_q(self, depth: int, level: int) -> float:
        """log2 of the ciphertext modulus of a refresh through a function of `depth` levels that ends at a
        user level. Raises TacitaError where there are no such levels."""
    @property
    def log_scale(self) -> float:
        """log2 of the canonical scale at the top level."""
    def log_scale_at(self, level: int) -> float:
        """The same at another user level. Raises ParameterError for one that the preset does not have."""
    @property
    def security_bits(self) -> int: ...
    @property
    def secret(self) -> str:
        """The secret's distribution."""
    @property
    def can_bootstrap(self) -> bool: ...
    @property
    def failure_log2(self) -> float:
        """log2 of an upper bound on the probability that a bootstrap fails; -1024 where there is none."""
    @property
    def hash(self) -> str: ...
    @property
    def bootstrap_key_bytes(self) -> int:
        """Bytes in memory of the evaluation keys that every plan has."""

@final
class Ciphertext:
    """Immutable; carries its parameters and the id of its key, so that it serialises alone."""

    @property
    def level(self) -> int: ...
    @property
    def log_scale(self) -> float: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def key_id(self) -> str: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(params: Parameters, data: bytes) -> Ciphertext:
        """Parses hostile bytes; raises FormatError."""

@final
class SecretKey:
    """The client's. No repr of its content, no pickling, no copy; wiped when dropped."""

    @staticmethod
    def load(path: str, params: Parameters) -> SecretKey:
        """Reads a secret-key file; raises FormatError."""
    @property
    def key_id(self) -> str: ...
    @property
    def params(self) -> Parameters: ...
    def decrypt(self, ct: Ciphertext) -> _Complex:
        """The slots, approximate: as sensitive as the key when published unrounded."""

@final
class EvaluationKeys:
    """Those of one client, at the server."""

    @staticmethod
    def load(
        path: str, params: Parameters, rotations: _Rotations, coefficients: int | None = None
    ) -> EvaluationKeys:
        """Raises FormatError for other keys than exactly those that `keygen` makes for these rotations, and
        for coefficient products of so many tokens."""
    @staticmethod
    def file_bytes(params: Parameters, rotations: _Rotations, coefficients: int | None = None) -> int:
        """Bytes of the file of these keys, exactly; no key is made. Raises TacitaError for a level above the
        top."""
    @property
    def key_id(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...

@final
class Products:
    """Accumulators of degree 2, rows x columns. The operation that takes them leaves the object empty."""

    @property
    def level(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class Evaluator:
    """Evaluates circuits; operations as in `tacita.slots.base.Backend`. keys: None for what clients share,
    which `with_keys` takes along. threads = 0: all cores. device: the number of a device of OpenCL, which
    then computes; its results stay there until their bytes are asked for. `matmul` and products of
    coefficients raise TacitaError there, as a device does that is too small."""

    def __new__(
        cls,
        params: Parameters,
        keys: EvaluationKeys | None = None,
        threads: int = 0,
        device: int | None = None,
    ) -> Evaluator: ...
    def with_keys(self, keys: EvaluationKeys) -> Evaluator:
        """An evaluator over another client's keys, with the same threads, matrices of bootstrapping and
        device."""

    def prepare(self, bootstraps: bool, bytes: int) -> None:
        """Makes now what the first request would make: the matrices of bootstrapping, if they are wanted, and
        room for so many bytes of ciphertexts."""

    @staticmethod
    def set_aside(bytes: int) -> None:
        """Sets so many bytes of memory aside for the keys and ciphertexts to come, in place of what is left
        of those that were: addresses alone, until `provide` is called. Elsewhere than on Linux nothing."""

    def provide(self, bytes: int) -> int:
        """Touches the next so many bytes of what is set aside, on all threads, and returns how many were
        left of it. Cost: 0.2 to 3 s a gigabyte."""

    @property
    def unused_bytes(self) -> int:
        """That this process has touched for keys and ciphertexts and that none uses now."""

    @property
    def coefficient_keys(self) -> CoefficientKeys | None:
        """Those of the plan, if it has coefficient products."""
    @property
    def slots(self) -> int: ...
    @property
    def max_level(self) -> int: ...
    @property
    def threads(self) -> int: ...
    def level(self, a: Ciphertext) -> int: ...
    def add(self, a: Ciphertext, b: Ciphertext) -> Ciphertext: ...
    def sub(self, a: Ciphertext, b: Ciphertext) -> Ciphertext: ...
    def neg(self, a: Ciphertext) -> Ciphertext: ...
    def add_const(self, a: Ciphertext, c: complex) -> Ciphertext: ...
    def add_vector(self, a: Ciphertext, v: _Complex) -> Ciphertext: ...
    def mul(self, a: Ciphertext, b: Ciphertext) -> Ciphertext: ...
    def square(self, a: Ciphertext) -> Ciphertext: ...
    def dot(self, xs: Sequence[Ciphertext], ys: Sequence[Ciphertext]) -> Ciphertext:
        """The sum of x_i * y_i with one relinearisation."""
    def mul_const(self, a: Ciphertext, c: complex) -> Ciphertext: ...
    def mul_int(self, a: Ciphertext, k: int) -> Ciphertext: ...
    def mul_i(self, a: Ciphertext) -> Ciphertext: ...
    def mul_vector(self, a: Ciphertext, v: _Complex) -> Ciphertext: ...
    def conjugate(self, a: Ciphertext) -> Ciphertext: ...
    def rotate(self, a: Ciphertext, k: int) -> Ciphertext: ...
    def rotate_many(self, a: Ciphertext, ks: Sequence[int]) -> list[Ciphertext]: ...
    def linear(
        self,
        cts: Sequence[Ciphertext],
        vectors: _Complex,
        terms: NDArray[np.int32],
        n_outputs: int,
        horner_step: int,
    ) -> list[Ciphertext]:
        """vectors: (n, period), read where they are: no thread writes to them meanwhile; terms: rows of
        output, giant, input, baby, vector; horner_step 0: none."""
    def matmul(
        self,
        cts: Sequence[Ciphertext],
        weights: _Float,
        bias: _Float | None = None,
    ) -> list[Ciphertext]:
        """weights: (outputs, inputs, period); bias: (outputs, period)."""
    def matmul_parts(
        self,
        parts: Iterable[tuple[Sequence[int], Sequence[Ciphertext]]],
        weights: _Float,
        bias: _Float | None = None,
    ) -> list[Ciphertext]:
        """The same of operands of one level that come part by part: columns, and their operands. Every column
        once, in any parts and order; the bits are those of one call."""
    def products(
        self,
        left: Sequence[Sequence[Ciphertext]],
        right: Sequence[Sequence[Ciphertext]],
        onto: Products | None = None,
    ) -> Products:
        """acc[j][i] (+)= sum over c of left[c][j] * right[c][i]. Takes `onto` over unless it raises."""
    def relinearise(self, products: Products) -> list[list[Ciphertext]]:
        """[rows][columns], one level down. Takes the accumulators over."""
    def poly(self, a: Ciphertext, coeffs: _Complex) -> Ciphertext:
        """A Chebyshev series on [-1, 1]."""
    def drop_to(self, a: Ciphertext, level: int) -> Ciphertext: ...
    def bootstrap(self, cts: Sequence[Ciphertext], kinds: Sequence[str]) -> list[Ciphertext]:
        """Refreshed. kinds: "real", "complex", or "pair" of two real ones next to each other."""
    def bootstrap_through(
        self, cts: Sequence[Ciphertext], kinds: Sequence[str], coeffs: _Complex
    ) -> list[Ciphertext]:
        """Refreshed, and Re sum_k coeffs[k] exp(i k PHASE w) of both parts of every slot w."""
    def rescale_ms(self, a: Ciphertext, repeats: int) -> float:
        """Best milliseconds of one rescale, for benchmarks."""

def keygen(
    params: Parameters,
    rotations: _Rotations,
    secret_path: str,
    keys_path: str,
    progress: Callable[[int, int], object],
    coefficients: int | None = None,
) -> None:
    """Writes a secret key and the evaluation keys of a plan. progress(done, total) may raise to interrupt."""

def evaluation_keys(
    secret: SecretKey,
    rotations: _Rotations,
    keys_path: str,
    progress: Callable[[int, int], object],
    coefficients: int | None = None,
) -> None:
    """Writes evaluation keys of a secret key that exists, with fresh errors."""

def encrypt(secret: SecretKey, slots: _Complex, level: int) -> Ciphertext:
    """slots: a power-of-two length dividing those of the preset, repeated over them."""

# Coefficient products

@final
class CoefficientKeys:
    """Keys to and from the secret of the small ring, for one number of tokens."""

    @staticmethod
    def generate(secret: SecretKey, tokens: int) -> CoefficientKeys: ...
    @property
    def tokens(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

@final
class CoefficientWeights:
    """A plain matrix, arranged for products."""

@final
class CoefficientBlocks:
    """Blocks of a matrix in the small ring."""

    def __len__(self) -> int: ...

@final
class Coefficients:
    """Products by plain matrices on coefficients, step by step: `crates/coefficients` explains them."""

    def __new__(cls, evaluator: Evaluator, keys: CoefficientKeys) -> Coefficients: ...
    @property
    def shape(self) -> tuple[int, int, int]:
        """Features of one ciphertext, of one block, and blocks of a ciphertext."""
    def weights(self, matrix: _Float, bias: _Float | None = None) -> CoefficientWeights:
        """matrix: (outputs, inputs); bias: (outputs,)."""
    def to_coefficients(self, cts: Sequence[Ciphertext]) -> list[Ciphertext]:
        """Slots at level 1 or more to coefficients."""
    def descend(self, cts: Sequence[Ciphertext], features: int) -> CoefficientBlocks: ...
    def multiply(self, blocks: CoefficientBlocks, weights: CoefficientWeights) -> CoefficientBlocks: ...
    def ascend(self, blocks: CoefficientBlocks) -> list[Ciphertext]: ...
    def refresh(
        self,
        cts: Sequence[Ciphertext],
        coeffs: _Complex | None = None,
        level: int | None = None,
        at_once: int = 0,
    ) -> list[Ciphertext]:
        """Coefficients to fresh slots, through a trigonometric polynomial where it is given, and at that
        level where it is: the lower, the cheaper. At most `at_once` beside each other (0: half the
        threads)."""

def coefficient_rotations(params: Parameters) -> list[tuple[int, int]]:
    """(steps, highest level) of the rotation keys beside those of bootstrapping."""

# Benchmarks

def yardstick_ms(log_n: int, repeats: int) -> float:
    """Milliseconds of one scalar 64-bit Harvey NTT: the unit Y."""

def ntt_ms(log_n: int, repeats: int) -> float:
    """Milliseconds of one NTT of ours (one 50-bit limb)."""

def hot_kernels_ms(log_n: int, repeats: int) -> tuple[float, float]:
    """Returns milliseconds of two steps of a key switch, out of the caches: the conversion of one limb to one
    prime, and one limb of one half of the product of two digits with a packed key, divided."""

def limb_tasks(limbs: int, log_n: int, threads: int, converted: bool) -> int:
    """Returns how many tasks of equal size a phase of a key switch on so many limbs has on so many threads.
    converted: whether the limbs are targets of a conversion, which few threads take in groups."""

def commit() -> str:
    """The commit that was built, 12 hexadecimal digits; empty outside a clone."""

def simd_path() -> str:
    """Which kernels are in force: scalar, neon, avx2, avx512 or avx512ifma."""

def opencl_devices() -> tuple[list[tuple[str, str, str, int, int, bool, bool]], str]:
    """Returns of each device its name, maker, driver with its version, bytes of memory and of the largest
    buffer, whether it computes with doubles and whether it is a GPU; then why there is none, empty where
    there is one. Raises TacitaError."""

def opencl_room(device: int) -> tuple[int, int]:
    """Returns the bytes of a device's slots for ciphertexts, which are one buffer and at most half of its
    memory, and those that are left for keys, matrices and plaintexts. Raises TacitaError."""

def opencl_verify(device: int) -> list[tuple[str, str, int, int, int]]:
    """Runs every kernel on a device and on the processor. Returns kernel, flavour (F64: doubles, U64: 64-bit
    integers), log2 of the degree, residues compared and residues that differ. Raises TacitaError where the
    device, its driver or its compiler fails."""

@final
class OpenclBootstrap:
    """A bootstrap on the processor under keys of its own, to compare devices with."""

    def __new__(cls, params: Parameters) -> OpenclBootstrap:
        """Makes the keys and bootstraps on the processor. Raises TacitaError for parameters without
        bootstrapping."""
    @staticmethod
    def memory(params: Parameters) -> tuple[int, int]:
        """Returns the bytes that a comparison takes at most, of the processor and of the device."""
    def compare(self, device: int, flavour: int) -> tuple[str, str, int, int, int] | None:
        """Bootstraps on a device in its `flavour`-th flavour, the faster one first. Returns what
        `opencl_verify` does of each check, None where the device has fewer flavours. Raises TacitaError."""

# Two parties on shares

@final
class TableServer:
    """The server's side of a hidden embedding table. values: a matrix of integers below 2^(bits - 2)."""

    def __new__(cls, values: _Integers, bits: int) -> TableServer: ...
    def message(self) -> bytes:
        """What a client gets once."""

@final
class TableClient:
    """The client's side. Raises for a message of another length than `table_bytes`, for malformed keys."""

    def __new__(cls, message: bytes, rows: int, columns: int, bits: int) -> TableClient: ...

@final
class PreparedProduct:
    """One party's part of rows that are prepared for one matrix of weights. Each serves once."""

    @property
    def left(self) -> int:
        """Rows that are left."""

def table_bytes(rows: int, columns: int, bits: int) -> int:
    """Bytes of the encrypted table of this shape."""

@final
class TwoParty:
    """One party of a session. Calls run one at a time; after a PeerError the session is over."""

    @staticmethod
    def dial(
        host: str,
        port: int,
        *,
        ca: str | None = None,
        fingerprint: str | None = None,
        server_name: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        insecure_plain: bool = False,
        timeout: float = 600.0,
        link: _Link | None = None,
        simulate: bool = False,
        threads: int = 0,
    ) -> TwoParty:
        """Connects as the client. Needs one of ca (a PEM file), fingerprint (SHA-256), insecure_plain."""
    @staticmethod
    def over_socket(fd: int, *, client: bool, timeout: float, threads: int | None) -> TwoParty:
        """Over a connected Unix stream socket, of which it keeps a descriptor of its own."""
    @property
    def is_client(self) -> bool: ...
    @property
    def role(self) -> str: ...
    @property
    def peer(self) -> str | None:
        """SHA-256 of the certificate that the peer showed."""
    @property
    def rounds(self) -> int: ...
    @property
    def bytes_sent(self) -> int: ...
    @property
    def bytes_received(self) -> int: ...
    @property
    def skipped_seconds(self) -> float:
        """Seconds of a simulated link that were not slept."""
    @property
    def failure_log2(self) -> float:
        """log2 of a bound for the probability that a product of this session so far is wrong by chance."""
    def handshake(self, plan: bytes) -> None:
        """Raises PeerError on both sides unless both have this 32-byte hash of everything public."""
    def send(self, data: bytes) -> None: ...
    def receive(self, count: int) -> bytes: ...
    def limit(self, seconds: float | None) -> None:
        """From now on no wait for the peer goes on for longer than this in all."""
    def capacity(self, bytes: int) -> None:
        """Bytes that may wait for the peer to read them; a send beyond waits."""
    def close(self) -> None: ...
    def abort(self) -> None:
        """Closes the link at once, also while another thread waits in a call."""
    def begin(self, name: str) -> None:
        """Books what follows under `name` in the profile, until the matching end()."""
    def end(self) -> None: ...
    def profile(self) -> list[dict[str, Any]]:
        """What every operation cost: path, calls, sent, received, rounds, wall and cpu seconds."""

    # Correlated oblivious transfers
    def setup(self, cot: str = "ferret", *, products: bool = True) -> None:
        """Base transfers and lattice keys, once a session. cot: "ferret" or "softspoken"."""
    def set_link(self, link: str | tuple[float, float]) -> None:
        """Windows of products and look-ups of comparisons for a link, at both parties alike: a name, or
        bits a second and seconds of a round trip."""
    def reserve_cots(self, as_sender: int, as_receiver: int) -> None: ...
    def cots(self) -> dict[str, int]: ...
    def take_cots(self, count: int) -> int: ...
    def wrong_cots(self, count: int) -> int: ...

    # Matrix products: shape is (k, m, n) or (batch, k, m, n), errors are below 2^slack units
    def share_times_weights(
        self,
        x: _Shares,
        weights: _Integers | None,
        shape: Sequence[int],
        bits: int,
        *,
        slack: int = 16,
        log_norm: int = 24,
        opened: bool = False,
    ) -> _Shares: ...
    def prepare_weights(
        self,
        weights: _Integers | None,
        shape: tuple[int, int, int],
        bits: int,
        *,
        slack: int = 16,
        log_norm: int = 24,
    ) -> PreparedProduct:
        """Products of shape = (rows, inputs, outputs) with the server's weights, before the rows are known.
        The cost of `share_times_weights` with all rows."""

    def times_prepared(self, x: _Shares, prepared: PreparedProduct, weights: _Integers | None) -> _Shares:
        """Shares of x (rows, inputs) times the weights, by the next rows that are prepared: from the client
        one ring element for each of x, nothing back."""

    def client_times_server(
        self,
        left: _Shares | None,
        right: _Integers | None,
        shape: Sequence[int],
        bits: int,
        *,
        slack: int = 16,
        log_norm: int = 24,
        opened: bool = False,
    ) -> _Shares: ...
    def share_times_share(
        self,
        x: _Shares,
        y: _Shares,
        shape: Sequence[int],
        bits: int,
        *,
        slack: int = 16,
        opened: bool = False,
    ) -> _Shares: ...
    def lookup_served(self, table: TableServer, tokens: int) -> _Shares: ...
    def lookup(self, table: TableClient, rows: Sequence[int]) -> _Shares: ...

    # Products element by element, and opening
    def scaled(self, x: _Shares, y: _Shares, *, held: int, short: int, bits: int, slack: int) -> _Shares: ...
    def square_narrow(self, x: _Shares, bits: int, to: int, slack: int) -> _Shares: ...
    def reveal(self, x: _Shares) -> None: ...
    def receive_revealed(self, x: _Shares, bits: int) -> _Shares: ...

    # Comparisons, choices, other rings
    def negative(self, x: _Shares, bits: int) -> _Bits: ...
    def below(self, x: _Shares, bits: int, thresholds: Sequence[int]) -> list[_Bits]: ...
    def select(self, bit: _Bits, x: _Shares, bits: int) -> _Shares: ...
    def to_arithmetic(self, bit: _Bits, bits: int) -> _Shares: ...
    def one_hot(self, ids: _Shares, bits: int, vocabulary: int) -> _Bits: ...
    def argmax_rows(
        self, x: _Shares, bits: int, index_bits: int, *, window: int | None = None
    ) -> tuple[_Shares, _Shares]: ...
    def truncate(self, x: _Shares, bits: int, shift: int) -> _Shares: ...
    def extend(self, x: _Shares, bits: int, to: int) -> _Shares: ...

    # Functions of fixed-point numbers: frac fraction bits in a ring of bits
    def gelu(
        self,
        x: _Shares,
        bits: int = 64,
        frac: int = 18,
        out_bits: int | None = None,
        *,
        form: str = "abs4",
        range: int = 10,
    ) -> _Shares: ...
    def silu(
        self,
        x: _Shares,
        bits: int = 64,
        frac: int = 18,
        out_bits: int | None = None,
        *,
        form: str = "abs8",
        range: int = 10,
    ) -> _Shares: ...
    def elu(
        self,
        x: _Shares,
        bits: int = 64,
        frac: int = 18,
        out_bits: int | None = None,
        out_frac: int | None = None,
        *,
        range: int = 10,
    ) -> _Shares: ...
    def tanh(
        self,
        x: _Shares,
        bits: int = 64,
        frac: int = 18,
        out_bits: int | None = None,
        out_frac: int | None = None,
        *,
        range: int = 10,
    ) -> _Shares: ...
    def softmax(
        self,
        x: _Shares,
        bits: int = 64,
        frac: int = 18,
        out_bits: int | None = None,
        out_frac: int | None = None,
        *,
        range: int = 10,
    ) -> _Shares: ...
    def softmax_parts(
        self,
        x: _Shares,
        bits: int,
        frac: int,
        range: int,
        power_bits: int,
        inverse_bits: int,
        inverse_frac: int,
    ) -> tuple[_Shares, _Shares]:
        """exp(x - max), in the shape of x, and the inverses of the rows' sums, (rows,)."""
    def layer_norm(
        self,
        x: _Shares,
        gamma: _Float | None,
        beta: _Float | None,
        *,
        bits: int = 64,
        frac: int = 18,
        bound: float,
        least: float,
        gamma_bound: float,
        epsilon: float = 1e-12,
        out_bits: int | None = None,
        out_frac: int | None = None,
        centred: bool = True,
    ) -> _Shares:
        """gamma and beta at the server, None at the client."""

@final
class TwoPartyListener:
    """A listening socket; port 0 takes a free one. Without a certificate only with insecure_plain=True."""

    def __new__(
        cls,
        host: str,
        port: int,
        *,
        certificate: str | None = None,
        key: str | None = None,
        client_ca: str | None = None,
        insecure_plain: bool = False,
    ) -> TwoPartyListener: ...
    @property
    def port(self) -> int: ...
    def next(self, wait: float) -> TwoPartyArrival | None:
        """The next connection; None when nobody came within `wait` seconds."""
    def accept(
        self,
        wait: float,
        *,
        timeout: float = 600.0,
        link: _Link | None = None,
        simulate: bool = False,
        threads: int = 0,
    ) -> TwoParty | None:
        """The next client after its TLS handshake, as the server of a session; for one client at a time."""

@final
class TwoPartyArrival:
    """A connection that was accepted and on which nothing was said yet."""

    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    def close(self) -> None:
        """Hangs up at once, whatever another thread does on this connection."""
    def secure(self, *, within: float, timeout: float = 600.0) -> TwoParty:
        """The TLS handshake, then the server's end of a session. Raises LateError, GoneError, PeerError."""

def two_party_pair(
    *, timeout: float = 120.0, link: _Link | None = None, simulate: bool = False, threads: int = 0
) -> tuple[TwoParty, TwoParty]:
    """(client, server) over memory, for two threads of one process."""

def product_cost(
    shape: Sequence[int], bits: int, link: _Link, *, opened: bool = False, crossed: bool = False
) -> tuple[int, float]:
    """Bytes, and seconds of both parties' work, of a product over a link: with weights, or with shares."""

def share_threads(count: int) -> int:
    """How many threads the sessions of arrivals compute on (0: one for each core); returns what holds."""

def generate_certificate(folder: str, names: Sequence[str]) -> tuple[str, str]:
    """Writes a self-signed certificate.pem and key.pem for these names; returns both paths."""

def certificate_fingerprint(path: str) -> str:
    """SHA-256 of the first certificate of a PEM file, 64 hexadecimal digits."""

def certificate_problem(path: str, name: str) -> str | None:
    """Why a client that trusts this certificate would refuse a server of this name today."""
