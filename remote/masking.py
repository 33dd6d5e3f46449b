"""Hide secrets in whatever is shown, recorded or logged: values of telling environment names and of secret flags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MASK = "•••"
SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")  # of a proxy, or a package index
# `token` and `key` also name harmless flags (--max-total-tokens), so flags are listed by the word they end in
SECRET_FLAG = re.compile(r"^--?[\w-]*(api-key|password|secret|auth-token|access-token)$")


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


def _secret_flag(word: str) -> bool:
    return SECRET_FLAG.match(word.replace("_", "-")) is not None


def _secret_variable(name: str) -> bool:
    """NAME=value words, as `env` takes them."""
    return name.isidentifier() and name.isupper() and SECRET_NAME.search(name) is not None
