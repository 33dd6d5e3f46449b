"""Text that somebody hostile would put where a name or a value is expected: a fixed list, and more by random seeds."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

MARK = "pwned"  # a file of this name shows that something ran
LISTED = (
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "x; touch pwned #",
    "| touch pwned",
    "|| touch pwned",
    "&& touch pwned",
    "& touch pwned &",
    "\ntouch pwned\n",
    "\r\ntouch pwned",
    "' ; touch pwned ; '",
    '" ; touch pwned ; "',
    "\\'; touch pwned; \\'",
    "'\"'\"'$(touch pwned)",
    "${IFS}touch${IFS}pwned",
    "$((1+$(touch pwned)))",
    "<(touch pwned)",
    "> pwned",
    ">>pwned",
    "2>pwned",
    "{touch,pwned}",
    "!touch pwned",
    "~root",
    "*",
    "?[a-z]",
    "-rf",
    "--",
    "--rsync-path=touch pwned",
    "-oProxyCommand=touch pwned",
    "%h %p %r",
    "",
    " ",
    "\t",
    "\x1b[2J\x1b]0;pwned\x07",
    "a\\",
    "\\\n",
    "ünï ☃ \u202e \U0001f4a5",
    "a=b",
    "A=$(touch pwned)",
    "#",
    "x" * 5000,
)
PIECES = (
    *"'\"`$(){}[];&|<>\\!#~*?=%^-\n\r\t ",
    "touch pwned",
    "$(",
    "$'",
    "\\'",
    "a",
    "ü",
    "\u2028",
    "--",
    "eval ",
    "%h",
)


def hostile(seed: int, count: int = 60) -> Iterator[str]:
    """The listed ones, then `count` random ones. None has a NUL: no command line can, and profiles refuse it."""
    yield from LISTED
    chance = random.Random(seed)
    for _ in range(count):
        yield "".join(chance.choices(PIECES, k=chance.randint(1, 25)))


def by_sh(command: str, folder: Path) -> list[str]:
    """The words that a real sh makes of `command`. Nothing else may come of it: `folder` stays as it was."""
    before = sorted(folder.iterdir())
    script = "show() { for word; do printf '%s\\0' \"$word\"; done; }\nshow " + command
    done = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert sorted(folder.iterdir()) == before
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
