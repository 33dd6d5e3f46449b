"""Getting the agent to run on a host: find a Python and a place, push what is not there yet, launch.

Each step has a channel of its own and closes it before the next: hosts may allow one at a time.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import shlex

import paramiko

from console.errors import LinkError
from console.ssh import Tell
from console.ssh.connection import Connection
from console.ssh.exchange import Ran, answered, quietly
from console.ssh.pack import Pack, pack

PLACES = ("CACHE/hsconsole", "/var/tmp/hsconsole-UID", "/dev/shm/hsconsole-UID", "/tmp/hsconsole-UID")
PATIENCE = 30.0  # seconds; for an interpreter on a slow file system

FIND = (
    'for p in "$1" python3 /usr/bin/python3 /usr/local/bin/python3; do '
    'if "$p" -IS -c "import sys; sys.exit(sys.version_info < (3, 9))" </dev/null >/dev/null 2>&1; '
    'then exec "$p" -IS - "$p" "$@"; fi; done; exit 3'
)
RECEIVE = 'umask 077; cat >"$1" && mv -f "$1" "$2" || { s=$?; rm -f "$1"; exit $s; }'


@dataclasses.dataclass(frozen=True)
class Launched:
    """The agent's channel; its first frame comes after `nonce`."""

    channel: paramiko.Channel
    nonce: str


@dataclasses.dataclass(frozen=True)
class Site:
    """Where the agent can run: a Python, and folders to put the agent into, the best first."""

    python: str
    note: str
    places: tuple[tuple[str, bool], ...]
    failed: tuple[tuple[str, str], ...]


def launch(connection: Connection, python: str, tell: Tell) -> Launched:
    """Start the agent on `python`, else on any Python 3.9+ of the host. Raises LinkError, saying what failed where."""
    agent = pack()
    tell("looking for the agent")
    site = _survey(connection, agent, python)
    path = _settle(connection, agent, site, tell)
    nonce = secrets.token_hex(16)
    words = ["exec", site.python, "-X", "utf8", path, "--nonce", nonce]
    words += ["--note", site.note] if site.note else []
    tell("starting the agent")
    channel = connection.channel()
    try:
        with answered(channel, PATIENCE):
            channel.exec_command(connection.words(shlex.join(words)))
    except (paramiko.SSHException, EOFError, OSError) as error:
        quietly(channel.close)
        raise LinkError(f"{connection.label} did not start the agent: {error}") from None
    return Launched(channel, nonce)


def _survey(connection: Connection, agent: Pack, python: str) -> Site:
    nonce = secrets.token_hex(16)
    find = _sh(FIND, python, nonce, agent.digest, str(len(agent.data)), json.dumps(PLACES))
    ran = connection.run(find, agent.finder, PATIENCE)
    site = _site(nonce, ran)
    if site is None:
        looked = f"{python}, python3" if python != "python3" else python
        raise LinkError(
            f"{connection.label} has no usable Python 3.9 or newer (tried {looked}). {_told(ran)}".strip(),
            "Install one there, or set container.python.",
        )
    return site


def _settle(connection: Connection, agent: Pack, site: Site, tell: Tell) -> str:
    """The path of the agent on the host, pushed there when no place has it."""
    for folder, have in site.places:
        if have:
            return f"{folder}/{agent.name}"
    failed = list(site.failed)
    for folder, _ in site.places:
        tell(f"pushing the agent to {folder}")
        why = _push(connection, agent, folder)
        if not why:
            return f"{folder}/{agent.name}"
        failed.append((folder, why))
    listed = "".join(f"\n  {folder}: {why}" for folder, why in failed)
    raise LinkError(f"there is no place for the agent on {connection.label}:{listed}", "Make one of them writable.")


def _push(connection: Connection, agent: Pack, folder: str) -> str:
    """Put the agent into `folder`; returns why it failed, nothing when it did not."""
    aside, path = f"{folder}/.agent-{secrets.token_hex(8)}.part", f"{folder}/{agent.name}"
    if connection.has_sftp and _push_by_sftp(connection, agent, aside, path):
        return ""
    # sftp is off, or what the login shell prints breaks it
    ran = connection.run(_sh(RECEIVE, aside, path), agent.data, PATIENCE)
    return "" if ran.status == 0 else _told(ran) or f"status {ran.status}"


def _push_by_sftp(connection: Connection, agent: Pack, aside: str, path: str) -> bool:
    channel = connection.channel()
    try:
        channel.settimeout(PATIENCE)
        with answered(channel, PATIENCE):
            channel.invoke_subsystem("sftp")
        with paramiko.SFTPClient(channel) as sftp:
            with sftp.open(aside, "wx") as file:
                file.set_pipelined()
                file.chmod(0o600)
                file.write(agent.data)
            sftp.posix_rename(aside, path)
    except (paramiko.SSHException, paramiko.SFTPError, EOFError, OSError):
        return False
    finally:
        quietly(channel.close)
    return True


def _sh(script: str, *arguments: str) -> str:
    """`script` run by sh whatever the login shell is, its arguments from $1 on."""
    return shlex.join(["sh", "-c", script, "hsconsole", *arguments])


def _site(nonce: str, ran: Ran) -> Site | None:
    """What the finder said, apart from what the login shell printed before it. None when it is not the finder's."""
    _, found, answer = ran.out.partition(nonce.encode() + b" ")
    if not found:
        return None
    try:
        said = json.loads(answer.partition(b"\n")[0])
        return Site(
            python=str(said["python"]),
            note=str(said["note"]),
            places=tuple((str(place["folder"]), bool(place["have"])) for place in said["places"]),
            failed=tuple((str(folder), str(why)) for folder, why in said["failed"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _told(ran: Ran) -> str:
    """The last line that the command wrote, of stderr when there is one."""
    lines = (ran.err or ran.out).decode(errors="replace").strip().splitlines()
    return lines[-1][-300:] if lines else ""
