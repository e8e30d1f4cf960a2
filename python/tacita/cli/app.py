"""Registers the commands and turns errors into one line and an exit status.

Exit status, of all commands alike:

    0    what was asked is answered
    1    it is answered in part, or with a warning: lines of a file were left out, or an answer is coarse
    2    an error, or an answer that failed its checks: such a one is not shown, or with --show-anyway only
    130  interrupted
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tacita.cli import demo, doctor, estimate, models, plan, recheck, steps
from tacita.cli.ask import accuracy, choose, generate, schemas, tasks
from tacita.cli.console import MESSAGE, err, fail, out, shown, warn
from tacita.cli.help import Command, Group
from tacita.cli.options import place_of
from tacita.cli.service import backup, gateway, keys, serve, token
from tacita.errors import FileError, InputError, KeyBudgetWarning, TacitaError
from tacita.settings import ASK, EXPERT, PLAN, SERVER

INTERRUPTED = 130

app = typer.Typer(
    cls=Group,
    help="Classify text that the classifier never sees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(doctor.version())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show release, commit and kernels, and exit.",
        ),
    ] = False,
) -> None:
    """Takes the options that stand before a command."""


COMMANDS: tuple[tuple[str, str, Callable[..., None] | typer.Typer, str], ...] = (
    (ASK, "demo", demo.demo, "Encrypt sentences, classify them, decrypt the answers."),
    (ASK, "classify", tasks.classify, "Classify texts, or pairs of texts."),
    (ASK, "embed", tasks.embed, "Turn texts into vectors."),
    (ASK, "search", tasks.search, "Find the documents nearest to a query."),
    (ASK, "tag", tasks.tag, "Mark the spans of texts, names and places for example."),
    (ASK, "answer", tasks.answer, "Answer a question by a part of a context."),
    (ASK, "fill", tasks.fill, "Fill the masks of texts."),
    (ASK, "rerank", tasks.rerank, "Sort documents by their relevance to a query."),
    (ASK, "generate", generate.run, "Go on behind a text with a decoder."),
    (ASK, "models", models.app, "List small models to try, or fetch one."),
    (PLAN, "doctor", doctor.doctor, "Say whether a default run fits on this machine."),
    (PLAN, "device", doctor.device_app, "List the devices of OpenCL, or verify one."),
    (PLAN, "choose", choose.choose, "Name the cheapest scheme that promises what you need."),
    (PLAN, "estimate", estimate.estimate, "Say what a run would cost."),
    (PLAN, "plan", plan.app, "Make or show the public plan of a run."),
    (PLAN, "publish", plan.publish, "Make a plan and the folder that clients get."),
    (PLAN, "accuracy", accuracy.run, "Measure accuracy and errors on a labelled file."),
    (SERVER, "serve", serve.run, "Serve a model that sees neither texts nor answers."),
    (SERVER, "gateway", gateway.run, "Serve OpenAI's clients of this machine, privately."),
    (SERVER, "token", token.app, "Who may ask a server: bearer tokens and quotas."),
    (SERVER, "keys", keys.app, "Keys of services, and whom they belong to."),
    (SERVER, "backup", backup.back_up, "Copy a server's folders, also while it serves."),
    (SERVER, "restore", backup.restore, "Make a server's folders from a backup."),
    (SERVER, "demo-service", demo.demo_service, "Start a server, ask it by both of its schemes."),
    (EXPERT, "keygen", steps.keygen, "Make secret.key and evaluation.keys."),
    (EXPERT, "encrypt", steps.encrypt, "Tokenise, embed, pack and encrypt."),
    (EXPERT, "evaluate", steps.evaluate, "Run the model on the ciphertexts."),
    (EXPERT, "decrypt", steps.decrypt, "Decrypt the answers, check them, round them."),
    (EXPERT, "schema", schemas.schema, "Print the JSON schema of a command's --json."),
    (EXPERT, "recheck", recheck.run, "Check a published run again, all of it."),
    (EXPERT, "prices", estimate.prices, "Measure what operations cost here: a minute, 5 GB."),
)
for panel, name, command, words in COMMANDS:
    if isinstance(command, typer.Typer):
        for each in command.registered_commands:
            each.cls = Command
        app.add_typer(command, name=name, short_help=words, cls=Group, rich_help_panel=panel)
    else:
        app.command(name, short_help=words, cls=Command, rich_help_panel=panel)(command)


def main(arguments: list[str] | None = None, commands: typer.Typer = app) -> int:
    """Runs one command and returns its exit status. What the package warns of is shown in one line each.
    commands: `tacita`'s, or others that are to end as they do."""
    out.stderr = False  # until --json takes standard output
    with warnings.catch_warnings():
        warnings.simplefilter("default", KeyBudgetWarning)
        warnings.showwarning = _show_warning
        return _run(arguments, commands)


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    warn(f"{shown(str(message), MESSAGE)}")


def _run(arguments: list[str] | None, commands: typer.Typer) -> int:
    try:
        status = commands(arguments if arguments is not None else sys.argv[1:], standalone_mode=False)
    except TacitaError as error:
        fail(error)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    except typer.Exit as done:
        status = done.exit_code
    except Exception as error:
        return _usage(error)
    if status == INTERRUPTED:
        err.print("interrupted; no file was left half-written")
    return int(status or 0)


def _usage(error: Exception) -> int:
    """Shows an error of the option parser with its usage line; for an option that is a setting now, where it
    went; a file that the system refuses, by its name. Anything else is a defect and keeps its traceback."""
    if isinstance(error, OSError) and error.filename is not None:
        fail(
            FileError(
                f"{error.filename!s:.300}: {error.strerror}", hint="name another one, or see its rights"
            )
        )
        return 2
    show, option = getattr(error, "show", None), getattr(error, "option_name", "")
    if show is None:
        raise error
    command = error.ctx.command if getattr(error, "ctx", None) else None  # type: ignore[attr-defined]
    if option and (place := place_of(option, getattr(getattr(command, "callback", None), "taken", {}))):
        fail(InputError(place, hint="docs/settings.md"))
    else:
        show()
    return 2
