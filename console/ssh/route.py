"""From a profile's host to the hops of the way there, as OpenSSH's own configuration resolves it."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from console.config import checks
from console.config.profile import Login
from console.errors import ConfigError

PATIENCE = 10.0  # seconds; `Match exec` may run programs
MAX_HOPS = 8
DEFAULT_KNOWN_HOSTS = "~/.ssh/known_hosts"
IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclasses.dataclass(frozen=True)
class Given:
    """A Login for a host that no profile names: one to jump over."""

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None
    ssh_config: str | None = None


@dataclasses.dataclass(frozen=True)
class Hop:
    """One host on the way. known_as: the name its key is filed under; agent_socket: None when no agent is to be asked.

    identities: private key files in the order to try; only_identities: of an agent's keys, use these alone.
    known_hosts: files to look into; new keys go to the first.
    """

    name: str
    host: str
    port: int
    user: str
    known_as: str
    identities: tuple[Path, ...]
    only_identities: bool
    agent_socket: str | None
    known_hosts: tuple[Path, ...]
    hash_names: bool = False
    proxy_command: str | None = None

    @property
    def label(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


def route(login: Login) -> tuple[Hop, ...]:
    """The hops to `login`, nearest first. Raises ConfigError when the profile or ssh's configuration can't be used."""
    wrong = [str(problem) for problem in checks.login_problems("ssh", login)]
    if wrong:
        raise ConfigError("\n".join(wrong), "Correct the profile.")
    return _route(login, MAX_HOPS)


def expanded(path: str) -> Path:
    """`path` with a home folder in place of `~` or `~NAME`. Raises ConfigError where there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ConfigError(f"{path}: there is no such home folder here", "Write the whole path.") from None


def unread_config(login: Login) -> str:
    """A note when there is an ssh configuration but no ssh program to read it with, else nothing."""
    path = expanded(login.ssh_config or "~/.ssh/config")
    if shutil.which("ssh") or not os.path.lexists(path):
        return ""
    return f"{path} is not read: there is no ssh program here"


def by_hand(login: Login) -> str:
    """The command by which ssh itself goes the same way, over the same hops and by the same names of their keys."""
    return shlex.join(["ssh", *_arguments(login), login.host])


def _arguments(login: Login) -> list[str]:
    arguments = ["-F", str(expanded(login.ssh_config))] if login.ssh_config else []
    arguments += ["-l", login.user] if login.user else []
    arguments += ["-p", str(login.port)] if login.port else []
    return arguments


def _route(login: Login, left: int) -> tuple[Hop, ...]:
    if left == 0:
        raise ConfigError(f"more than {MAX_HOPS} jumps on the way to {login.host}", "Look for a loop of ProxyJump.")
    options = _options(login)
    hop = _hop(login, options)
    jumps = [jump for jump in _one(options, "proxyjump").split(",") if jump and jump != "none"]
    before: tuple[Hop, ...] = ()
    for i, jump in enumerate(jumps):
        given = _given(jump, login.ssh_config)
        # as with `ssh -J`: only the first jump's own proxies count
        before += _route(given, left - 1) if i == 0 else (_hop(given, _options(given)),)
    return (*before, dataclasses.replace(hop, proxy_command=None) if before else hop)


def _given(jump: str, ssh_config: str | None) -> Given:
    user, _, address = jump.removeprefix("ssh://").rpartition("@")
    match = re.fullmatch(r"(?:\[(?P<six>.*)\]|(?P<host>[^:]*))(?::(?P<port>\d+))?", address)
    host, port = (match["six"] or match["host"], match["port"]) if match else (address, None)
    given = Given(host, user or None, int(port) if port else None, ssh_config=ssh_config)
    wrong = [str(problem) for problem in checks.login_problems("ProxyJump", given)]
    if wrong:
        raise ConfigError("\n".join(wrong), "Correct ssh's configuration.")
    return given


def _options(login: Login) -> dict[str, list[str]]:
    """What `ssh -G` says, by lower-case keyword; without an ssh program only what the profile says."""
    program = shutil.which("ssh")
    if program is None:
        user, _, host = login.host.rpartition("@")
        return {"hostname": [host], "user": [user or getpass.getuser()], "port": ["22"]}
    command = [program, "-G", *_arguments(login), "--", login.host]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"`ssh -G` for {login.host} failed: {error}", "Try it by hand.") from None
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip()
        raise ConfigError(f"ssh can't resolve {login.host!r}: {told}", "Correct ssh's configuration, or the profile.")
    options: dict[str, list[str]] = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        keyword, _, value = line.partition(" ")
        options.setdefault(keyword.lower(), []).append(value)
    return options


def _hop(login: Login, options: dict[str, list[str]]) -> Hop:
    host = _one(options, "hostname") or login.host
    port = login.port or int(_one(options, "port") or 22)
    user = login.user or _one(options, "user") or getpass.getuser()
    tokens = _tokens(login.host, host, port, user)
    known = [*_words(_one(options, "userknownhostsfile")), *_words(_one(options, "globalknownhostsfile"))]
    command = _one(options, "proxycommand")
    identities = [login.key] if login.key else options.get("identityfile") or [f"~/.ssh/{name}" for name in IDENTITIES]
    return Hop(
        name=login.host,
        host=host,
        port=port,
        user=user,
        known_as=(_one(options, "hostkeyalias") or (host if port == 22 else f"[{host}]:{port}")).lower(),
        identities=tuple(expanded(_expand(path, tokens)) for path in identities),
        only_identities=login.key is not None or _one(options, "identitiesonly") == "yes",
        agent_socket=_agent_socket(_one(options, "identityagent"), tokens),
        known_hosts=tuple(expanded(path) for path in known if path != "none") or (expanded(DEFAULT_KNOWN_HOSTS),),
        hash_names=_one(options, "hashknownhosts") == "yes",
        proxy_command=_expand(command, tokens) if command and command != "none" else None,
    )


def _agent_socket(option: str, tokens: dict[str, str]) -> str | None:
    if option == "none":
        return None
    if not option or option == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK")
    if option.startswith("$"):
        return os.environ.get(option[1:].strip("{}"))
    return str(expanded(_expand(option, tokens)))


def _tokens(name: str, host: str, port: int, user: str) -> dict[str, str]:
    local = getpass.getuser()
    home = str(Path.home())
    node = os.uname().nodename
    return {"%": "%", "h": host, "n": name, "p": str(port), "r": user, "u": local, "d": home, "l": node, "k": host}


def _expand(text: str, tokens: dict[str, str]) -> str:
    return re.sub(r"%(.)", lambda match: tokens.get(match[1], match[0]), text)


def _one(options: dict[str, list[str]], keyword: str) -> str:
    return options.get(keyword, [""])[0]


def _words(text: str) -> list[str]:
    with contextlib.suppress(OSError):
        if expanded(text).is_file():
            return [text]  # one path with spaces in it
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
