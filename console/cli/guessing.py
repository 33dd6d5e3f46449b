"""Groups of commands that guess what was meant by a name they have not."""

from __future__ import annotations

import difflib

import click


class Guessing(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        close = difflib.get_close_matches(args[0], names, 1)
        if close and args[0] not in names and not ctx.resilient_parsing:  # a shell completes half a name
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)
