"""A laptop, a Proxmox host and a real LXC container on one machine, in namespaces of their own.

laptop 10.129.0.50 – vmbr0 of the host 10.129.0.1 – container 129 at 10.129.0.129. Nothing touches the machine's own
network, mounts or processes; any number of beds may be up at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bed import netns
from tests.bed.rootfs import rootfs
from tests.living import PATIENCE, lives

VMID = 129
HOST, CONTAINER, LAPTOP = "10.129.0.1", "10.129.0.129", "10.129.0.50"
PROGRAMS = (
    "lxc-start",
    "lxc-attach",
    "mmdebstrap",
    "nft",
    "ip",
    "fuser",
    "sshd",
    "sudo",
    "setpriv",
    "unshare",
    "nsenter",
)
CGROUPS = Path("/sys/fs/cgroup")
PREFIX = "hsbed-"
HOST_INIT = Path(__file__).with_name("host_init.py")
SSH_CONFIG = """\
Host container
  HostName {container}
Host proxmox
  HostName {host}
Host *
  User root
  IdentityFile {keys}/client
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {keys}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 5
"""


class Bed:
    """up() to down(). host_pid: process 1 of the Proxmox host, as this machine sees it.

    mounts: folders of this machine that the container has too; what it writes there is not written here.
    """

    def __init__(self, *, shm: str = "64m", mounts: tuple[str, ...] = ()) -> None:
        self.name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(3)}"
        self.folder = Path("/var/tmp") / self.name
        self.shm = shm
        self.mounts = mounts
        self.host_pid = 0
        self._own_net = Path("/proc/self/ns/net").readlink()
        self._laptop: subprocess.Popen[bytes] | None = None
        self._host: subprocess.Popen[bytes] | None = None

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    def up(self) -> Bed:
        """Raises AssertionError, with the host's own words, when it does not come up."""
        missing = [
            name for name in PROGRAMS if shutil.which(name, path="/usr/sbin:/sbin:" + os.environ["PATH"]) is None
        ]
        assert not missing, f"missing: {', '.join(missing)}; run: sh tests/system-packages.sh test"
        assert os.geteuid() == 0, "the bed makes namespaces: run these tests as root"
        sweep()
        self.folder.mkdir(mode=0o755)
        try:
            self._make_keys()
            self._laptop = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"])
            self.power_on()
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """Leaves no process, namespace, mount, control group or file. May be called again."""
        self.power_off()
        if self._laptop is not None:
            self._laptop.kill()
            self._laptop.wait()
            self._laptop = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def power_off(self) -> None:
        """The host is gone, and its container, without a word to anybody; so is all that they wrote."""
        if self._host is not None:
            self._host.kill()  # the host's process 1 is killed with it, and all of its PID namespace
            self._host.wait()
            self._host = None
        if self.host_pid:
            _wait_for("the host's end", lambda: not lives(self.host_pid))
            self.host_pid = 0
        _remove_cgroups(self.name)
        for path in self.folder.iterdir() if self.folder.exists() else ():
            if path.is_dir() and path != self.keys:
                shutil.rmtree(path, ignore_errors=True)
        (self.folder / "ready").unlink(missing_ok=True)

    @contextlib.contextmanager
    def laptop(self) -> Iterator[None]:
        """This thread sits at the laptop: what it connects, starts and runs is in the laptop's network."""
        assert self._laptop is not None
        with netns.inside(self._laptop.pid):
            yield

    def host(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `command` as root on the Proxmox host, not over ssh."""
        return subprocess.run(
            ["nsenter", "-t", str(self.host_pid), "-m", "-u", "-i", "-n", "-p", "--", *command],
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )

    def inside(self, *command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `command` as root in the container, not over ssh."""
        attach = ("lxc-attach", "-n", str(VMID), "--clear-env", "--", *command)
        return self.host(*attach, stdin=stdin)

    def power_on(self) -> None:
        """The host boots; returns when it and its container can be logged in to."""
        log = (self.folder / "host.log").open("wb")
        self._host = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *("unshare", "--mount", "--propagation", "private", "--uts", "--ipc", "--net", "--pid"),
                *("--fork", "--kill-child=SIGKILL", "--mount-proc", sys.executable, "-I", str(HOST_INIT)),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        told = {"folder": str(self.folder), "name": self.name, "vmid": str(VMID), "shm": self.shm}
        assert self._host.stdin is not None
        with self._host.stdin as pipe:
            pipe.write(json.dumps({**told, "rootfs": str(rootfs()), "mounts": list(self.mounts)}).encode())
        self.host_pid = self._first_child(self._host.pid)
        self._cable()
        self._wait_until_ready()

    def _first_child(self, pid: int) -> int:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        _wait_for("the host's first process", lambda: bool(children.read_text().split()))
        return int(children.read_text().split()[0])

    def _cable(self) -> None:
        """A cable from the laptop to the host's bridge, which the host makes first."""
        assert self._laptop is not None
        laptop, host = str(self._laptop.pid), str(self.host_pid)
        _wait_for(
            "networks of their own",
            lambda: len({self._own_net, *(Path(f"/proc/{pid}/ns/net").readlink() for pid in (laptop, host))}) == 3,
        )
        bridge = ("nsenter", "-t", host, "-n", "ip", "link", "show", "dev", "vmbr0", "up")
        at_laptop, at_host = ("nsenter", "-t", laptop, "-n", "ip"), ("nsenter", "-t", host, "-n", "ip")
        before = (*at_laptop, "link", "show", "dev", "eth0")
        _wait_for("the bridge", lambda: bool(subprocess.run(bridge, capture_output=True, check=False).stdout))
        _wait_for(
            "end of the last cable", lambda: bool(subprocess.run(before, capture_output=True, check=False).returncode)
        )
        for command in (
            (*at_host, "link", "add", "laptop0", "type", "veth", "peer", "name", "eth0", "netns", laptop),
            (*at_host, "link", "set", "laptop0", "master", "vmbr0", "up"),
            (*at_laptop, "link", "set", "lo", "up"),
            (*at_laptop, "addr", "add", f"{LAPTOP}/24", "dev", "eth0"),
            (*at_laptop, "link", "set", "eth0", "up"),
        ):
            subprocess.run(command, check=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE  # it takes two seconds
        while not (self.folder / "ready").exists():
            assert self._host is not None
            if self._host.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the bed does not come up:\n{self._words()}")
            time.sleep(0.02)

    def _words(self) -> str:
        logs = (self.folder / name for name in ("host.log", "sshd.log", "lxc.log"))
        return "\n".join(path.read_text(errors="replace")[-3000:] for path in logs if path.exists())

    def _make_keys(self) -> None:
        keys = self.keys
        keys.mkdir()
        for name in ("client", "host", "container"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(keys / name)]
            subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
        known = ((HOST, "host.pub"), (CONTAINER, "container.pub"))
        lines = (f"{address} {' '.join((keys / name).read_text().split()[:2])}\n" for address, name in known)
        (keys / "known_hosts").write_text("".join(lines))
        self.ssh_config.write_text(SSH_CONFIG.format(container=CONTAINER, host=HOST, keys=keys))


def _wait_for(what: str, seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline, f"no {what} in {PATIENCE:.0f} s"
        time.sleep(0.01)


def sweep() -> None:
    """Remove what a bed of a killed test run left: control groups and files; all else ended with it."""
    left = [*Path("/var/tmp").glob(f"{PREFIX}*"), *cgroups(PREFIX)]
    for path in left:
        name, pid = path.name.partition(".")[0], path.name.split("-")[1]
        if not lives(int(pid)):
            _remove_cgroups(name)
            shutil.rmtree(path, ignore_errors=True)


def cgroups(start: str) -> list[Path]:
    """Control groups of such names: at the top of each hierarchy, or beside our own, where LXC makes them."""
    places = {CGROUPS, *CGROUPS.iterdir()}
    for text in Path("/proc/self/cgroup").read_text().splitlines():
        _, hierarchy, own = text.split(":", 2)
        places.add(CGROUPS / hierarchy.removeprefix("name=") / own.lstrip("/"))
    return [group for place in places for group in place.glob(f"{start}*")]


def _remove_cgroups(name: str) -> None:
    """The kernel lets a group go a moment after its last process."""
    deadline = time.monotonic() + 5.0
    while True:
        groups = cgroups(name)
        for group in groups:
            for folder, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if not groups or time.monotonic() > deadline:
            return
        time.sleep(0.05)
