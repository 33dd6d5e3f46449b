"""Hide secrets in whatever is shown, recorded or logged: values of telling environment names and of secret flags."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

MASK = "•••"
SECRET_NAME = re.compile(
    r"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|(?<![A-Z])PASS(?![A-Z])|_PWD(?![A-Z])|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE
)
LOGIN_IN_URL = re.compile(r"(?<=://)[^/?#\s'\"]+(?=@)")  # of a proxy, or a package index
# `token` and `key` also name harmless flags (--max-total-tokens), so flags are listed by the word they end in;
# argparse takes a beginning for the whole (--api-k)
ENDINGS = r"(?:api-k(?:ey?)?|passw(?:o|or|ord)?|secret|auth-token|access-token)"
SECRET_FLAG = re.compile(rf"^--?[\w-]*{ENDINGS}$")
QUOTED = r"""(?:'[^']*'|"[^"]*")"""
VALUE = rf"""(?:{QUOTED}+|['"]?[^\s'"]+)"""  # as a shell takes it, and also where its quote has no end
WORDS = ENDINGS.replace("-", "[-_]")
# on a command line, or in a list of its words
FLAG_IN_TEXT = re.compile(rf"""(?<![\w-])(--?[\w-]{{0,60}}{WORDS})(?:((['"]),\s*['"])[^'"]*|(=|\s+){VALUE})""")
VARIABLE_IN_TEXT = re.compile(rf"((?:{SECRET_NAME.pattern})[A-Z0-9_]{{0,60}})={VALUE}")
# as Python and JSON show an option: SGLang's own log has all of them
OPTION_IN_TEXT = re.compile(rf"""((?:{WORDS}|hf[-_]token)['"]?\s*[=:]\s*){QUOTED}""")
BEARER_IN_TEXT = re.compile(r"([Bb]earer\s+)[\w.~+/=-]+")
SHORTEST_SECRET = 4  # characters; what is shorter can't be told from ordinary text
SHORTEST_LINE = 8  # of a secret of several lines
NO_SECRETS = ("true", "false", "none")  # of switches whose names look secret: TOKENIZERS_PARALLELISM


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with the values of names that look secret replaced, and logins in URLs."""
    return {name: MASK if SECRET_NAME.search(name) else LOGIN_IN_URL.sub(MASK, value) for name, value in env.items()}


def mask_argv(argv: Sequence[str]) -> list[str]:
    """`argv` with the values of secret flags replaced, written `--flag value` or `--flag=value`.

    A word may be a command line itself, as `sh -c` takes it, or JSON: what `mask_text` finds in it is replaced too.
    """
    masked: list[str] = []
    secret_next = False
    for word in argv:
        name, equals, _ = word.partition("=")
        assigned = bool(equals) and (_secret_flag(name) or _secret_variable(name))
        if secret_next:
            masked.append(MASK)
        else:
            masked.append(f"{name}={MASK}" if assigned else mask_text(word))
        secret_next = not secret_next and not equals and _secret_flag(word)
    return masked


def mask_text(text: str, known: Collection[str] = ()) -> str:
    """Free text with every secret that can be told replaced. known: secrets, as `secrets_of` finds them."""
    for secret in known:
        text = text.replace(secret, MASK)
    text = FLAG_IN_TEXT.sub(rf"\1\2\4{MASK}", text)
    text = BEARER_IN_TEXT.sub(rf"\1{MASK}", OPTION_IN_TEXT.sub(rf"\1{MASK}", text))
    return LOGIN_IN_URL.sub(MASK, VARIABLE_IN_TEXT.sub(rf"\1={MASK}", text))


def mask_json(value: Any, known: Collection[str] = ()) -> Any:
    """JSON with the secrets in all its texts replaced."""
    if isinstance(value, str):
        return mask_text(value, known)
    if isinstance(value, (list, tuple)):
        return [mask_json(item, known) for item in value]
    if isinstance(value, dict):
        return {name: mask_json(item, known) for name, item in value.items()}
    return value


def secrets_of(flags: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The secret values themselves, the longest first. flags: as a profile has them, `--flag value` one word or two."""
    words = [part for flag in flags for part in (flag.split(" ", 1) if flag.startswith("-") else [flag])]
    found = {value for name, value in env.items() if SECRET_NAME.search(name)}
    for word, after in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        if _secret_flag(name) or _secret_variable(name):
            found.add(value if equals else after.strip())
    for text in (*words, *env.values()):
        found.update(login.partition(":")[2] or login for login in LOGIN_IN_URL.findall(text))
    told = [one for one in found if len(one) >= SHORTEST_SECRET and one.lower() not in NO_SECRETS]
    return tuple(sorted({form for one in told for form in _forms(one)}, key=len, reverse=True))


def _forms(secret: str) -> Iterator[str]:
    """As it is, and as URLs, Python, JSON and shells write it; each line of it, where it has several."""
    yield from (secret, unquote(secret), repr(secret)[1:-1], json.dumps(secret)[1:-1], shlex.quote(secret))
    lines = secret.splitlines()
    yield from (line for line in lines if len(lines) > 1 and len(line) >= SHORTEST_LINE)


def _secret_flag(word: str) -> bool:
    return SECRET_FLAG.match(word.replace("_", "-")) is not None


def _secret_variable(name: str) -> bool:
    """NAME=value words, as `env` takes them."""
    return name.isidentifier() and name.isupper() and SECRET_NAME.search(name) is not None
