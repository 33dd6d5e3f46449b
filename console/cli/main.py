"""The root command, and what happens to errors."""

from __future__ import annotations

import importlib
import os
import sys

import click

import console
from console.errors import OperatorError

EXIT_INTERRUPTED = 130
EXIT_USAGE = 2

COMMANDS = {
    "canary": ("console.cli.canary", "Prove on the running server that its dumps mean what they should"),
    "demo": ("console.cli.demo", "See the whole job on this machine: real SGLang on the CPU, over real SSH"),
    "doctor": ("console.cli.doctor", "Check everything between this laptop and a good dump"),
    "dumps": ("console.cli.dumps", "List, show, test and verify dumped requests"),
    "init": ("console.cli.init", "Probe a container and write its profile"),
    "patch": ("console.cli.patch", "Check, show, apply and revert the patch of SGLang's model file"),
    "profiles": ("console.cli.profiles", "List the profiles, or show one as it is understood"),
    "server": ("console.cli.server", "Preflight, start, watch and stop the SGLang server"),
    "status": ("console.cli.status", "Everything the main screen shows, once"),
}


class LazyGroup(click.Group):
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
    try:
        status = root.main(args=arguments, prog_name="hsconsole", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except OperatorError as error:
        return _tell(error, as_json="--json" in arguments)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted: nothing more is done from here.", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from console.cli.crash import report_crash

        return report_crash(error)


def _tell(error: OperatorError, *, as_json: bool) -> int:
    from console.cli.output import print_error

    print_error(error, as_json=as_json)
    return error.exit_code
