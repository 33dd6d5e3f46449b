"""The root command, and what happens to errors."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator

import click

import console
from console.cli.guard import Guarded, OutputLost, let_go
from console.cli.guessing import Guessing
from console.errors import OperatorError

COMMANDS = {
    "audit": ("console.cli.audit", "Show what was done, by whom and when, and verify that record"),
    "canary": ("console.cli.canary", "Prove on the running server that its dumps mean what they should"),
    "demo": ("console.cli.demo", "See the whole job on this machine: real SGLang on the CPU, over real SSH"),
    "doctor": ("console.cli.doctor", "Check everything between this laptop and a good dump"),
    "dumps": ("console.cli.dumps", "List, show, test and verify dumped requests"),
    "init": ("console.cli.init", "Probe a container and write its profile"),
    "patch": ("console.cli.patch", "Check, show, apply and revert the patch of SGLang's model file"),
    "profiles": ("console.cli.profiles", "List the profiles, or show one as it is understood"),
    "server": ("console.cli.server", "Preflight, start, watch and stop the SGLang server"),
    "shm": ("console.cli.shm", "Show who holds /dev/shm, and remove what dead processes left there"),
    "status": ("console.cli.status", "Everything the main screen shows, once"),
}


class UsageFault(OperatorError):
    id = "usage"
    title = "The command line is not understood"
    exit_code = 2


class Interrupted(OperatorError):
    id = "interrupted"
    title = "Interrupted"
    exit_code = 130


class LazyGroup(Guessing):
    """Imports a command's module only when it is used, so that `--version` and `--help` stay instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(COMMANDS.items())])


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--profile", metavar="NAME", help="Which profile (default: $HSCONSOLE_PROFILE, or the only one there is)."
)
@click.version_option(console.__version__, prog_name="hsconsole")
@click.pass_context
def root(ctx: click.Context, profile: str | None) -> None:
    """An operator's console for extracting hidden states from a live SGLang server.

    Without a command it opens the screen.
    """
    ctx.obj = profile
    if ctx.invoked_subcommand is None:
        from console.cli.screen import open_screen

        open_screen(profile)


def run(arguments: list[str]) -> int:
    """Run the command line; returns the exit status. An operator never sees a traceback."""
    as_json = "--json" in arguments
    with _guarded():
        try:
            return _run(arguments, as_json=as_json)
        except OutputLost as lost:
            let_go(sys.stdout)
            return _tell(lost, as_json=False)
        except BrokenPipeError:
            let_go(sys.stdout)
            return 0


def _guarded() -> contextlib.AbstractContextManager[object]:
    """sys.stdout is None where it was closed from outside: nothing is said then."""
    return contextlib.nullcontext() if sys.stdout is None else contextlib.redirect_stdout(Guarded(sys.stdout))


def _run(arguments: list[str], *, as_json: bool) -> int:
    """Raises OutputLost and BrokenPipeError."""
    try:
        # not root.main: that takes a closed pipe for a failed check, and any EOFError for the operator's ^C
        with root.make_context("hsconsole", list(arguments)) as context:
            root.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (OutputLost, BrokenPipeError):
        raise
    except OperatorError as error:
        return _tell(error, as_json=as_json)
    except click.ClickException as error:
        if as_json:
            return _tell(UsageFault(error.format_message(), "hsconsole --help"), as_json=True)
        with _heard():
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _tell(Interrupted("nothing more is done from here"), as_json=as_json)
    except Exception as error:
        from console.cli.crash import crash

        return _tell(crash(error), as_json=as_json)
    return 0


def _tell(error: OperatorError, *, as_json: bool) -> int:
    from console.cli.output import print_error

    with _heard():
        print_error(error, as_json=as_json)
    return error.exit_code


@contextlib.contextmanager
def _heard() -> Iterator[None]:
    """Where stderr can't be written either, the exit status has to say it."""
    try:
        yield
    except OSError:
        let_go(sys.stderr)
