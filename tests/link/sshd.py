"""A real sshd on loopback, in a folder of its own, and the ssh configuration that leads to it."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.living import wait_for_the_end

PROGRAM = shutil.which("sshd") or "/usr/sbin/sshd"
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server")
SFTP = next((path for path in SFTP_SERVERS if Path(path).exists()), "internal-sftp")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def keygen(path: Path, *, passphrase: str = "", kind: str = "ed25519") -> Path:
    path.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)]
    command += ["-b", "2048"] if kind == "rsa" else []
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


class Sshd:
    """folder: its keys, its log and, in `home`, the home of whoever logs in."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.key = keygen(folder / "client")
        self.host_key = keygen(folder / "host")
        self.options: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def known_hosts_line(self) -> str:
        kind, key, *_ = Path(f"{self.host_key}.pub").read_text().split()
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"

    def authorize(self, *keys: Path) -> None:
        lines = [Path(f"{key}.pub").read_text() for key in keys]
        (self.folder / "authorized_keys").write_text("".join(lines))

    def start(self, **options: str) -> Sshd:
        """Start it and wait until it listens. options: of sshd_config, winning over the usual ones."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        if not (self.folder / "authorized_keys").exists():
            self.authorize(self.key)
        self.options = options or self.options
        usual = {
            "Port": str(self.port),
            "ListenAddress": "127.0.0.1",
            "HostKey": str(self.host_key),
            "AuthorizedKeysFile": str(self.folder / "authorized_keys"),
            "StrictModes": "no",
            "PidFile": "none",
            "UsePAM": "no",
            "PermitRootLogin": "yes",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "LogLevel": "VERBOSE",
            "Subsystem": f"sftp {SFTP}",
            "SetEnv": f"HOME={self.home}",
        }
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{key} {value}\n" for key, value in {**usual, **self.options}.items()))
        log = (self.folder / "log").open("ab")
        command = [PROGRAM, "-D", "-e", "-f", str(config)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        self._wait_until_it_listens()
        return self

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def sessions(self) -> int:
        """How many processes there are for connections, with all that they run."""
        assert self._process is not None
        return len(descendants(self._process.pid))

    def kill_sessions(self) -> None:
        """Kill the processes that serve connections; the listener lives on."""
        assert self._process is not None
        for pid in descendants(self._process.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # some end with others
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sshd"):
                    os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self._process is None:
            return
        pids = [*descendants(self._process.pid), self._process.pid]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        wait_for_the_end(pids)  # one that has just been forked still listens, and would answer for the next

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise AssertionError(self.log())
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
                return
            time.sleep(0.02)
        raise AssertionError("sshd does not listen")


def descendants(pid: int) -> list[int]:
    """The children of `pid` and theirs, the nearest first."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found + [grandchild for child in found for grandchild in descendants(child)]


class SshConfig:
    """A ~/.ssh/config of the test's own; no agent, no keys and no known hosts but what the test puts there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "config"
        self.known_hosts = folder / "known_hosts"
        self._hosts: list[str] = []
        self.write()

    def host(self, name: str, sshd: Sshd, *, known: bool = True, **options: str) -> None:
        usual = {
            "HostName": "127.0.0.1",
            "Port": str(sshd.port),
            "User": getpass.getuser(),
            "IdentityFile": str(sshd.key),
        }
        lines = [f"  {key} {value}\n" for key, value in {**usual, **options}.items()]
        self._hosts.append(f"Host {name}\n" + "".join(lines))
        if known:
            with self.known_hosts.open("a") as file:
                file.write(sshd.known_hosts_line)
        self.write()

    def write(self, before: str = "") -> None:
        common = (
            f"Host *\n  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            "  IdentityAgent none\n  IdentitiesOnly yes\n"
        )
        self.path.write_text(before + "".join(self._hosts) + common)
