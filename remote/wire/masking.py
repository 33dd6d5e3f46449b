"""Hide secrets in whatever is shown, recorded or logged: values of telling environment names and of secret flags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

MASK = "•••"
SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")  # of a proxy, or a package index
# `token` and `key` also name harmless flags (--max-total-tokens), so flags are listed by the word they end in;
# argparse takes a beginning for the whole (--api-k)
ENDINGS = r"(?:api-k(?:ey?)?|passw(?:o|or|ord)?|secret|auth-token|access-token)"
SECRET_FLAG = re.compile(rf"^--?[\w-]*{ENDINGS}$")
VALUE = r"""(?:'[^']*'|"[^"]*"|[^\s'",;]+)"""
FLAG_IN_TEXT = re.compile(rf"(--?[\w-]{{0,60}}{ENDINGS.replace('-', '[-_]')})(=|\s+|',\s*')({VALUE})")
VARIABLE_IN_TEXT = re.compile(rf"\b([A-Z0-9_]{{0,60}}(?:{SECRET_NAME.pattern})[A-Z0-9_]{{0,60}})=({VALUE})")
SHORTEST_SECRET = 4  # characters; what is shorter can't be told from ordinary text
NO_SECRETS = ("true", "false", "none")  # of switches whose names look secret: TOKENIZERS_PARALLELISM


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with the values of names that look secret replaced, and logins in URLs."""
    return {name: MASK if SECRET_NAME.search(name) else LOGIN_IN_URL.sub(MASK, value) for name, value in env.items()}


def mask_argv(argv: Sequence[str]) -> list[str]:
    """`argv` with the values of secret flags replaced, written `--flag value` or `--flag=value`, and logins in URLs."""
    masked: list[str] = []
    secret_next = False
    for word in argv:
        name, equals, _ = word.partition("=")
        assigned = bool(equals) and (_secret_flag(name) or _secret_variable(name))
        if secret_next:
            masked.append(MASK)
        else:
            masked.append(f"{name}={MASK}" if assigned else LOGIN_IN_URL.sub(MASK, word))
        secret_next = not secret_next and not equals and _secret_flag(word)
    return masked


def mask_text(text: str, known: Collection[str] = ()) -> str:
    """Free text with every secret that can be told replaced. known: secrets, as `secrets_of` finds them."""
    for secret in known:
        text = text.replace(secret, MASK)
    text = FLAG_IN_TEXT.sub(rf"\1\2{MASK}", text)
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
    told = (one for one in found if len(one) >= SHORTEST_SECRET and one.lower() not in NO_SECRETS)
    return tuple(sorted(told, key=len, reverse=True))


def _secret_flag(word: str) -> bool:
    return SECRET_FLAG.match(word.replace("_", "-")) is not None


def _secret_variable(name: str) -> bool:
    """NAME=value words, as `env` takes them."""
    return name.isidentifier() and name.isupper() and SECRET_NAME.search(name) is not None
