"""Logging in: an agent's keys and key files, in OpenSSH's order."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH

from console.errors import AuthenticationFailed, ConfigError, LinkError
from console.ssh.route import Hop

OPENSSH, MAGIC = "-----BEGIN OPENSSH PRIVATE KEY-----", b"openssh-key-v1\0"
AGENT_PATIENCE = 30.0  # seconds; a key may ask for a touch or a confirmation


class Agent(AgentSSH):
    """The keys of the agent at a socket: none when it does not answer."""

    def __init__(self, path: str | None) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(AGENT_PATIENCE)
        self.keys: tuple[paramiko.AgentKey, ...] = ()
        if path is None:
            return
        try:
            self._socket.connect(path)
            self._connect(self._socket)  # type: ignore[attr-defined]  # as paramiko.Agent does, with its socket
            self.keys = self.get_keys()
        except (OSError, paramiko.SSHException):
            return

    def close(self) -> None:
        self._socket.close()


@dataclasses.dataclass
class Attempts:
    """What was tried, for the error when nothing worked."""

    refused: list[str] = dataclasses.field(default_factory=list)
    locked: list[Path] = dataclasses.field(default_factory=list)
    unusable: list[str] = dataclasses.field(default_factory=list)


def log_in(transport: paramiko.Transport, hop: Hop) -> None:
    """Authenticate as `hop` says. Raises AuthenticationFailed, or LinkError when the line broke meanwhile."""
    attempts = Attempts()
    agent = Agent(hop.agent_socket)
    try:
        allowed = _allowed(transport, hop)
        if allowed is None:
            return
        if "publickey" in allowed and _any_accepted(transport, hop, agent, attempts):
            return
        raise _refused(hop, attempts, allowed)
    finally:
        agent.close()


def _allowed(transport: paramiko.Transport, hop: Hop) -> list[str] | None:
    """The methods that the host offers; None when it asks for nothing."""
    try:
        transport.auth_none(hop.user)
    except paramiko.BadAuthenticationType as error:
        return list(error.allowed_types)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise LinkError(f"{hop.label} ended the login: {error}", "It is tried again.") from None
    return None


def _any_accepted(transport: paramiko.Transport, hop: Hop, agent: Agent, attempts: Attempts) -> bool:
    for name, key in _candidates(hop, agent, attempts):
        try:
            missing = transport.auth_publickey(hop.user, key)
        except paramiko.AuthenticationException as error:
            if "timeout" in str(error).lower():
                raise LinkError(f"{hop.label} did not answer the login in time", "It is tried again.") from None
            attempts.refused.append(name)
        except (paramiko.SSHException, EOFError, OSError, ValueError) as error:
            attempts.unusable.append(f"{name} ({error})")
        else:
            if missing:
                raise AuthenticationFailed(
                    f"{hop.label} took the key {name} but wants {', '.join(missing)} as well",
                    "hsconsole logs in by key alone: allow that for this user.",
                )
            return True
        if not transport.is_active():
            raise AuthenticationFailed(
                f"{hop.label} closed the line after {len(attempts.refused) + len(attempts.unusable)} keys",
                "Name the right one: container.key in the profile, or IdentityFile with IdentitiesOnly in ssh's.",
            )
    return False


def _candidates(hop: Hop, agent: Agent, attempts: Attempts) -> Iterator[tuple[str, paramiko.PKey]]:
    devices = [path for path in hop.identities if _is_device(path)]  # would be read for ever
    attempts.unusable += [f"{path} (it is no plain file)" for path in devices]
    paths = [path for path in hop.identities if path not in devices]
    wanted = {public: path for path in paths if (public := _public(path)) is not None}
    held = {key.asbytes(): key for key in agent.keys}
    for public, path in wanted.items():
        if public in held:
            yield str(path), held[public]
    for public, key in held.items():
        if public not in wanted and not hop.only_identities:
            yield f"{key.comment or 'unnamed'} (agent)", key
    for path in paths:
        if _is_there(path) and _public(path) not in held:
            loaded = _load(path, attempts)
            if loaded is not None:
                yield str(path), loaded


def _is_device(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return not stat.S_ISREG(path.stat().st_mode)
    return False


def _is_there(path: Path) -> bool:
    """Also where that can't be told: to read it then says why."""
    try:
        return path.exists()
    except OSError:
        return True


def _public(path: Path) -> bytes | None:
    """The public part of the key at `path`: from the file beside it, else from its own head, where it is in clear."""
    with contextlib.suppress(OSError, ValueError):
        return paramiko.pkey.PublicBlob.from_file(f"{path}.pub").key_blob
    with contextlib.suppress(OSError, ValueError):
        begin, *body = path.read_text(encoding="ascii").partition("\n-----END")[0].splitlines()
        if begin == OPENSSH:
            return _public_in(base64.b64decode("".join(body)))
    return None


def _public_in(data: bytes) -> bytes | None:
    """Of OpenSSH's own format (PROTOCOL.key): magic, cipher, kdf and its options, a count, the first public key."""
    message = paramiko.Message(data.removeprefix(MAGIC))
    if not data.startswith(MAGIC):
        return None
    for _ in range(3):
        message.get_string()
    return message.get_string() if message.get_int() else None


def _load(path: Path, attempts: Attempts) -> paramiko.PKey | None:
    try:
        return paramiko.PKey.from_path(path)
    except (TypeError, paramiko.PasswordRequiredException):
        attempts.locked.append(path)
    except Exception as error:  # of cryptography's kinds too: one that is of no use keeps no other from being tried
        attempts.unusable.append(f"{path} ({error})")
    return None


def _refused(hop: Hop, attempts: Attempts, allowed: list[str]) -> Exception:
    if attempts.locked:
        locked = ", ".join(map(str, attempts.locked))
        return AuthenticationFailed(
            f"{hop.label}: the key {locked} is protected by a passphrase, and no ssh-agent holds it",
            f"ssh-add {attempts.locked[0]}",
        )
    if hop.only_identities and not any(map(_is_there, hop.identities)) and not attempts.refused:
        missing = ", ".join(map(str, hop.identities))
        return ConfigError(
            f"the key for {hop.label} does not exist: {missing}", "Correct container.key, or IdentityFile."
        )
    tried = "; ".join(attempts.refused + attempts.unusable) or "no key was found to try"
    return AuthenticationFailed(
        f"{hop.label} offers {', '.join(allowed)} and took none of: {tried}",
        f"Put a key of yours there (ssh-copy-id -p {hop.port} {hop.user}@{hop.host}), or ssh-add the right one.",
    )
