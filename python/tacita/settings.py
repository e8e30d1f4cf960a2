"""The settings of the commands, in tables: each key with its meaning, its default and its check.
`docs/settings.md` lists all of them; `cli.settings` reads them.

>>> Settings().plan.preset
'n16'

A key has one meaning, one default and one check, wherever its value is from. Secrets are no settings: a token
lies in a file of its own, which `[network] token_file` names, or in the variable TACITA_TOKEN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from tacita.evaluate.session import MEMORY_GB
from tacita.planning.options import GAP
from tacita.planning.request import NEAREST, Objective
from tacita.plans.scheme import AUTO, NAMES

FILE = Path("tacita.toml")  # of the current folder, where no other is named
PREFIX, DELIMITER = "TACITA_", "__"  # TACITA_PLAN__TOKENS is [plan] tokens
Keys = Mapping[str, Sequence[str]]  # by section
SHIPPED = "shipped"  # in place of a file of prices: the package's table
TIMEOUT = 120.0
ASK, PLAN, SERVER, CLUSTER, EXPERT = PANELS = ("Ask", "Plan", "Server", "Cluster", "Expert")  # of the help
SECTIONS = {"plan": PLAN, "run": ASK, "ray": CLUSTER}  # keys of all others are of servers
SERVED = ("thor", "bumblebee")  # schemes of a service

BackendName = Literal["plain", "sim", "ckks"]  # interpreters of a circuit
PackingName = Literal["auto", "rows", "coefficients", "multidiagonal"]  # packings of one text
RevealName = Literal["logits", "token"]  # outputs of a decoder that a client may get
PoolingName = Literal["pooler", "cls", "mean"]  # ways to read a text's vector from the last hidden states


def _split(given: object) -> object:
    """Splits texts at their commas, as one variable or one option has several values."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        return given
    return [part.strip() for one in texts for part in one.split(",")]


def _listed(given: object) -> object:
    """Splits one text at its commas; the paths of a list may hold some."""
    return _split(given) if isinstance(given, str) else given


def _no_number(given: object) -> object:
    """Refuses true and false for a number. Raises ValueError, which becomes an error of the field."""
    if isinstance(given, bool):
        raise ValueError("a number is expected, not true or false")
    return given


Several = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Paths = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_listed)]
Whole = Annotated[int, BeforeValidator(_no_number)]
Real = Annotated[float, BeforeValidator(_no_number), AllowInfNan(False)]


def setting(
    default: Any, meaning: str, flag: str = "", metavar: str | None = None, panel: str = "", **limits: Any
) -> Any:
    """Declares a key. meaning: the help of a command shows its first sentence. flag: how a command line
    spells it (default: by its name). panel: of the help (default: that of the section). limits: those of
    pydantic, as ge."""
    extra: JsonDict = {"flag": flag, "metavar": metavar, "panel": panel}
    return Field(default, description=meaning, json_schema_extra=extra, **limits)


class Section(BaseModel):
    """A table of the file. Its docstring says what its keys are about."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlanOptions(Section):
    """The model, and what a plan of it is to be. Each command reads those keys that mean something to it."""

    model: Path | None = setting(
        None,
        "Hugging Face folder, GGUF file, org/name[@revision] on the Hugging Face Hub, or shipped name. At a "
        "service, the name of one of its models (default: sst2-tiny; to generate, austen-tiny).",
        panel=ASK,
    )
    pooling: PoolingName | None = setting(
        None,
        "What an embedding is read from. pooler: a tanh layer on [CLS]; cls: [CLS] itself; mean: of all "
        "tokens (default: what the model's folder says).",
    )
    documents: Path | None = setting(
        None,
        "Score these, or name a server's: an index of `embed --index`, .txt (one a line), .npz (`vectors`).",
    )
    titles: bool = setting(False, "Publish the documents' texts or names to clients, in place of numbers.")
    nearest: Whole = setting(
        NEAREST, "Of documents by two parties: tell a client the scores of so many nearest (0: of all).", ge=0
    )
    scheme: str | None = setting(
        None,
        f"The protocol: {', '.join((AUTO, *NAMES))}. thor: one text a request; leaf: the same, with GELU "
        "computed by bootstraps; arion, moai: a batch; bumblebee: two parties over a connection; auto: the "
        "quickest by estimate (default: auto for several texts, thor for one).",
        metavar="NAME",
    )
    packing: PackingName | None = setting(
        None,
        "How one text lies in slots: auto, rows, coefficients, multidiagonal. Of thor rows (default) or "
        "multidiagonal (THOR's own), of leaf coefficients (default: feed-forward blocks by products of "
        "coefficients) or rows (by rotations); auto: the quicker by estimate.",
        metavar="NAME",
        panel=EXPERT,
    )
    inputs: Whole | None = setting(None, "Texts to expect; a batch is shaped for them.", ge=1)
    objective: Objective | None = setting(
        None,
        "What --scheme auto keeps short. throughput: the time until the last answer; latency: until the "
        "first (default: throughput for several texts, latency for one).",
    )
    tokens: Whole | None = setting(
        None,
        "Tokens of every request, a power of two from 16 to 1024; by two parties any number up to 8192. Of a "
        "decoder, those that the whole text may have (default: 128).",
        ge=1,
    )
    preset: str = setting(
        "n16",
        "Encryption parameters. leveled: the smallest secure ring that needs no bootstrapping.",
        panel=EXPERT,
    )
    functions: str = setting(
        "tacita",
        "Approximations of softmax, LayerNorm, GELU. tacita, moai, arion, leaf (GELU by a bootstrap), either "
        "(of tacita and leaf the cheaper), or thor (every softmax in rounds).",
        panel=EXPERT,
    )
    texts: Path | None = setting(
        None,
        "Calibration sentences, one per line (default: the model's own, else the package's). The plan, which "
        "the other side reads, publishes the extremes that the model takes on them, to 8 bits: a single "
        "unusual sentence shows. Of 500 lines or more every fifth is held out, to say how often texts leave "
        "the intervals.",
        panel=EXPERT,
    )
    prices: Path | None = setting(
        None,
        f"Price table of `tacita prices --json`, or {SHIPPED}. The package's as it is makes the same plans "
        "on every machine (default: what `tacita prices` measured here, else the package's, scaled).",
        metavar="FILE",
        panel=EXPERT,
    )
    begin: str = setting(
        "",
        "Of a decoder: a text before every prompt that is no secret. It is a system prompt, or the token "
        "that texts begin with. Two parties compute nothing for it; of ciphertexts `tacita generate` alone "
        "takes it.",
    )
    reveal: RevealName | None = setting(
        None,
        "Of a decoder on ciphertexts, what the client gets: logits (default) or the likeliest token alone.",
    )
    cache: bool = setting(
        False, "Under thor, rows of earlier tokens stay at the server, which learns how many.", panel=ASK
    )
    gap: Real = setting(
        GAP, "With reveal = token, logits nearer than this are not told apart.", panel=EXPERT, ge=0.0
    )
    link: str | None = setting(
        None,
        "Connection between client and server. A name, or Mbit/s and ms of a round trip: --scheme auto "
        "weighs bumblebee over it.",
        metavar="lan|wan|far|MBIT,MS",
    )


class RunOptions(Section):
    """How a command runs on this machine."""

    backend: BackendName | None = setting(
        None,
        "ckks encrypts, plain and sim do not. plain: the circuit without noise; to generate, floats. sim: "
        "with the noise of ciphertexts, or the integers of two parties. ckks: ciphertexts, both sides on "
        "this machine (default: ckks; of accuracy sim, to generate plain).",
        metavar="plain|sim|ckks",
    )
    threads: Whole = setting(0, "Cores to use (0: all).", panel=EXPERT, ge=0)
    device: str = setting("cpu", "Computes: cpu, auto or opencl:N of `device list`.", "", "DEVICE", EXPERT)
    seed: Whole | None = setting(None, "Of the chance of a text (default: a fresh one).", panel=EXPERT, ge=0)
    memory: Real = setting(MEMORY_GB, "GB to stay within; more waits on disk.", panel=EXPERT, ge=0.1)
    work: Path | None = setting(
        None,
        "Folder of plan, keys, request and response (default: of a step tacita-work, else a temporary one).",
        panel=EXPERT,
    )
    allow_insecure: bool = setting(False, "Admit parameters below 128 bits. For tests only.", panel=EXPERT)
    show_anyway: bool = setting(
        False,
        "Also show answers that failed their checks. They may hold anything, the secret key included: not "
        "where the server can see them.",
        panel=EXPERT,
    )


class NetworkOptions(Section):
    """The server that commands ask, and whom they trust there."""

    connect: str | None = setting(
        None,
        "Ask this server: https://HOST:PORT, or HOST:PORT. A URL is a service of any scheme, where "
        "--model is the name of a model and --scheme one of its schemes (by itself what the service "
        "offers); HOST:PORT is a `tacita serve` by the two-party protocol. No model folder is needed.",
        metavar="ADDRESS",
    )
    trust: Path | None = setting(None, "PEM file of the server's certificate, or its signer's.")
    fingerprint: str | None = setting(
        None, "Trust exactly the server whose certificate has this hash.", metavar="SHA256"
    )
    name: str | None = setting(
        None, "With trust, at a port: the name in the server's certificate (default: the host)."
    )
    certificate: Path | None = setting(None, "At a port: PEM file of this side's certificate.")
    key: Path | None = setting(None, "At a port: PEM file of the certificate's private key.")
    insecure_plain_tcp: bool = setting(
        False, "At a port: no TLS; anyone on the way can read and change messages."
    )
    timeout: Real = setting(TIMEOUT, "Seconds of silence after which the other side is given up.", gt=0.0)
    token_file: Path | None = setting(
        None, "Of a service: file that holds the token (default: variable TACITA_TOKEN)."
    )
    profile: bool = setting(False, "At a port: show time, bytes and rounds of each operation.")
    prepared: Whole = setting(
        0, "By two parties: prepare products for so many texts before they are sent.", ge=0, le=64
    )


class RayOptions(Section):
    """The machines of a Ray cluster, on which requests are evaluated."""

    address: str | None = setting(
        None,
        "Evaluate on a Ray cluster: local, or HOST:PORT of one that this machine has joined. local: one is "
        "started here.",
        flag="--ray",
        metavar="ADDRESS",
    )
    nodes: Whole | None = setting(
        None, "Nodes to start here, of one core each, or to use there at most.", flag="--ray-nodes", ge=1
    )
    cores: Whole | None = setting(
        None, "Cores of an evaluator (default: all of its node).", flag="--ray-cores", ge=1
    )


class ServiceOptions(Section):
    """`tacita serve`: where it listens, by which certificate, whom it admits and how much they may do."""

    https: str | None = setting(
        None, "Serve HTTP there by any scheme, in place of the bare two-party port.", metavar="HOST:PORT"
    )
    data: Path | None = setting(
        None, "With https: the server's own folder of plans, clients, keys and requests."
    )
    schemes: Several = setting(SERVED, "With https: schemes of the service, with commas between.")
    models: Paths = setting(
        (), "Models, as [plan] model names one. With https it may stand several times.", flag="--model"
    )
    host: str = setting("127.0.0.1", "Without https: address to listen on.")
    port: Whole = setting(0, "Without https: port to listen on (0: a free one).", ge=0, le=65535)
    certificate: Path | None = setting(None, "PEM file of this side's certificate.")
    key: Path | None = setting(None, "PEM file of the certificate's private key.")
    new_certificate: Path | None = setting(None, "Make a self-signed certificate in this folder, or use it.")
    names: Several = setting(
        (), "With new_certificate: host names or IP addresses that clients dial.", flag="--name"
    )
    client_ca: Path | None = setting(None, "Admit only clients with a certificate signed by this.")
    insecure_plain_tcp: bool = setting(False, "No TLS: anyone on the way can read and change messages.")
    anybody: bool = setting(False, "With https: answer callers without a token, too, as visitors.")
    max_texts: Whole | None = setting(
        None,
        "Texts of one client until the server ends: by certificate, or else by address (default: any "
        "number).",
        ge=1,
    )
    clients: Whole = setting(4, "Sessions at the same time; more are refused.", ge=1, le=256)
    clients_per_address: Whole | None = setting(
        None, "Of these, sessions of one address (default: all but one; from this machine, all).", ge=1
    )
    prepared: Whole = setting(
        4, "By two parties: texts of a session whose products are prepared before they come.", ge=0, le=64
    )
    timeout: Real = setting(TIMEOUT, "Seconds of silence after which the other side is given up.", gt=0.0)
    once: bool = setting(False, "Serve one client at a time, and end after the first that asked for a text.")
    keep_keys: Real = setting(30.0, "With https: days that keys stay without being used.", ge=0.0)
    keep_texts: Real = setting(10.0, "With https: minutes of silence before rows of a text go.", gt=0.0)
    most_keys: Real | None = setting(
        None, "With https: GB of all keys together (default: what the disk has).", ge=0.0
    )
    proxy: Several = setting((), "With https: believe X-Forwarded-For from these addresses alone.")
    origin: Several = setting(
        (), "With https: answer pages of these sites, too, as https://NAME.", metavar="ORIGIN"
    )
    waiting: Whole = setting(64, "With https: requests that wait, of each model and scheme.", ge=1)
    keep_answers: Real = setting(24.0, "With https: hours that an answer waits to be fetched.", gt=0.0)
    streams: Whole = setting(64, "With https: streams of events of one client.", ge=1)
    calls: Whole = setting(3000, "With https: calls a minute of one address without a valid token.", ge=1)
    patience: Real = setting(20.0, "With https: seconds of silence within a body or an answer.", gt=0.0)
    least_rate: Real = setting(32.0, "With https: kB a second that a body or an answer must move.", gt=0.0)
    traces: str | None = setting(
        None, "With https: OTLP collector of spans, as http://HOST:4318/v1/traces (extra tracing)."
    )
    drain: Real = setting(20.0, "Seconds that requests and sessions get to end after SIGTERM.", ge=0.0)


class GatewayOptions(Section):
    """`tacita gateway`: where OpenAI's clients reach it. Certificate and key are those of [service]."""

    listen: str = setting("127.0.0.1:8117", "Address of the gateway.", metavar="HOST:PORT")
    api_key_file: Path | None = setting(None, "File of the key that callers send (default: any will do).")
    calls: Whole = setting(4, "Calls at the same time; more are told to come back.", ge=1, le=256)


class ServedModel(PlanOptions):
    """A model that is served over https, in place of --model, by the name that clients give. Its table, as
    [models.reviews], takes all keys of [plan]; what it does not say is as there, and in [service]."""

    schemes: Several | None = setting(None, "As [service] schemes.")


class TwoPartyOptions(Section):
    """`tacita serve` by the two-party protocol: the embedding table, and the link."""

    hidden_embeddings: bool = setting(
        False, "Keep the embedding tables: clients look words up in an encrypted one."
    )
    insecure_any_client: bool = setting(
        False,
        "With hidden_embeddings: serve clients that are not known, who can work on the table's key.",
    )
    max_texts_per_key: Whole | None = setting(
        None,
        "With hidden_embeddings: texts of all clients before the table gets a new key (default: what answers "
        "cannot betray it by; 0: any number).",
        ge=0,
    )
    bandwidth: Real = setting(
        1000.0, "Of the link to the clients, Mbit/s: decides how transfers are made.", ge=0.1
    )


class Settings(BaseSettings):
    """All settings. `read_settings` makes them."""

    plan: PlanOptions = PlanOptions()
    run: RunOptions = RunOptions()
    network: NetworkOptions = NetworkOptions()
    ray: RayOptions = RayOptions()
    service: ServiceOptions = ServiceOptions()
    gateway: GatewayOptions = GatewayOptions()
    two_party: TwoPartyOptions = TwoPartyOptions()
    models: Mapping[str, ServedModel] = {}
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=DELIMITER, extra="forbid", frozen=True
    )

    def only(self, keys: Keys) -> Settings:
        """Returns the settings of these keys; all others are at their defaults."""
        names = {
            section: set(keys.get(section, ())) for section in Settings.model_fields if section != "models"
        }
        options: dict[str, Section] = {section: getattr(self, section) for section in names}
        return self.model_copy(
            update={
                section: type(each)(**{k: getattr(each, k) for k in each.model_fields_set & names[section]})
                for section, each in options.items()
            }
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Orders the sources: the command line, the environment, the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)
