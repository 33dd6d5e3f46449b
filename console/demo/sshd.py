"""A real sshd of our own on a loopback port, for root and for ordinary users alike: own keys, own configuration."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from console.errors import DemoError

ALIAS = "hsconsole-demo"
ATTEMPTS = 3  # another process may take the port between our look and sshd's bind
STARTS_IN = 10.0  # seconds


@dataclasses.dataclass(frozen=True)
class Sshd:
    """config: an ssh_config that knows it as ALIAS, with its host key pinned, for any ssh client."""

    pid: int
    port: int
    user: str
    key: Path
    known_hosts: Path
    config: Path


@contextlib.contextmanager
def serve(folder: Path, environment: Mapping[str, str]) -> Iterator[Sshd]:
    """Run sshd until the block ends. `environment` is set in every session. Raises DemoError."""
    program = _find("sshd")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in ("host_key", "user_key"):
        _make_key(folder / name)
    shutil.copyfile(folder / "user_key.pub", folder / "authorized_keys")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd drops its privileges into it
    process, port = _start(program, folder, environment)
    try:
        yield _describe(folder, process.pid, port)
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _find(program: str) -> str:
    found = shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        raise DemoError(
            f"there is no {program} on this machine, and the demo goes over real SSH",
            "On Debian and Ubuntu: apt-get install openssh-server",
        )
    return os.path.realpath(found)  # sshd re-executes itself and wants its full path


def _make_key(path: Path) -> None:
    if path.exists():
        return
    command = [_find("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", ALIAS, "-f", str(path)]
    try:
        made = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as error:
        raise DemoError(f"{command[0]} can't be run: {error.strerror}", "Install openssh-client anew.") from None
    if made.returncode or not path.with_suffix(".pub").exists():
        path.unlink(missing_ok=True)  # half a key would be taken for one the next time
        said = (made.stderr or made.stdout).decode(errors="replace").strip() or f"exit status {made.returncode}"
        raise DemoError(f"{command[0]} made no key at {path}: {said}", "Is there room, and may this user write there?")


def _start(program: str, folder: Path, environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    log = folder / "sshd.log"
    for _ in range(ATTEMPTS):
        port = free_port()
        (folder / "sshd_config").write_text(_server_config(folder, port, environment))
        # a session of its own: Ctrl-C is for the demo, which still needs the link to put everything back
        process = subprocess.Popen(
            [program, "-D", "-f", str(folder / "sshd_config"), "-E", str(log)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        if _answers(process, port):
            return process, port
        process.kill()
        process.wait()
    last = "\n".join(log.read_text(errors="replace").splitlines()[-4:]) if log.exists() else ""
    raise DemoError(f"{program} does not start; the end of {log}:\n{last}", "See sshd's own words above.")


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + STARTS_IN
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5) as peer:
            return peer.recv(4) == b"SSH-" and process.poll() is None
        time.sleep(0.05)
    return False


def _server_config(folder: Path, port: int, environment: Mapping[str, str]) -> str:
    settings = " ".join(f'"{name}={value}"' for name, value in environment.items())
    return f"""\
ListenAddress 127.0.0.1
Port {port}
HostKey "{folder / "host_key"}"
PidFile none
AuthorizedKeysFile "{folder / "authorized_keys"}"
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {_user()}
UsePAM {"yes" if _locked() else "no"}
StrictModes no
PrintMotd no
Subsystem sftp internal-sftp
{f"SetEnv {settings}" if settings else ""}
"""


def _user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name  # not from the environment: after `su` it still names the other one


def _locked() -> bool:
    """Without PAM, sshd turns away an account whose password is locked (`!` in /etc/shadow), keys or not."""
    try:
        lines = Path("/etc/shadow").read_text().splitlines()
    except OSError:
        return False  # not root: sshd can't read it either
    return any(line.startswith(f"{_user()}:!") for line in lines)


def _describe(folder: Path, pid: int, port: int) -> Sshd:
    kind, blob, *_ = (folder / "host_key.pub").read_text().split()
    known_hosts, config, key = folder / "known_hosts", folder / "ssh_config", folder / "user_key"
    known_hosts.write_text(f"[127.0.0.1]:{port} {kind} {blob}\n")
    config.write_text(
        f"""\
Host {ALIAS}
    HostName 127.0.0.1
    Port {port}
    User {_user()}
    IdentityFile "{key}"
    IdentitiesOnly yes
    UserKnownHostsFile "{known_hosts}"
    StrictHostKeyChecking yes
"""
    )
    return Sshd(pid, port, _user(), key, known_hosts, config)
