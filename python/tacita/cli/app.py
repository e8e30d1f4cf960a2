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
from typing import Annotated, Any

import typer

from tacita.cli.ask import accuracy, classify
from tacita.cli.console import MESSAGE, err, fail, shown
from tacita.cli.plans import estimate, prices, publish
from tacita.cli.plans import plan as plan_command
from tacita.cli.service import demo as demo_service
from tacita.cli.service import keys, token
from tacita.cli.steps import decrypt, demo, encrypt, evaluate, keygen
from tacita.cli.tasks import answer, embed, fill, generate, search, tag
from tacita.cli.two_party import serve
from tacita.errors import KeyBudgetWarning, TacitaError
from tacita.version import __version__

INTERRUPTED = 130

app = typer.Typer(
    help="Classify text that the classifier never sees.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},  # commands inherit it
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacita {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the release and exit."),
    ] = False,
) -> None:
    """Takes the options that stand before a command."""


app.command("demo")(demo.run)
app.command("classify")(classify.run)
app.command("embed")(embed.run)
app.command("search")(search.run)
app.command("tag")(tag.run)
app.command("answer")(answer.run)
app.command("fill")(fill.run)
app.command("generate")(generate.run)
app.add_typer(plan_command.app, name="plan")
app.command("publish")(publish.run)
app.command("keygen")(keygen.run)
app.command("encrypt")(encrypt.run)
app.command("evaluate")(evaluate.run)
app.command("decrypt")(decrypt.run)
app.command("serve")(serve.run)
app.add_typer(token.app, name="token")
app.command("demo-service")(demo_service.run)
app.add_typer(keys.app, name="keys")
app.command("estimate")(estimate.run)
app.command("prices")(prices.run)
app.command("accuracy")(accuracy.run)


def main(arguments: list[str] | None = None, commands: typer.Typer = app) -> int:
    """Runs one command and returns its exit status. What the package warns of is shown in one line each.
    commands: `tacita`'s, or others that are to end as they do."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", KeyBudgetWarning)
        warnings.showwarning = _show_warning
        return _run(arguments, commands)


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    err.print(f"[yellow]warning:[/yellow] {shown(str(message), MESSAGE)}", soft_wrap=True)


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
    """Errors of the option parser print their own usage line; anything else is a defect and keeps its
    traceback."""
    show = getattr(error, "show", None)
    if show is None:
        raise error
    show()
    return 2
