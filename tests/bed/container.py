"""What tests do to the container behind hsconsole's back: put holders there, look, clean up."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from tests.bed.machines import CGROUPS, Bed

PORT = 8000
OPT = "/opt/bed"
SOURCES = Path(__file__).parent
MODULES = (
    ("holders", "sglang/launch_server"),
    ("holders", "ipykernel_launcher"),
    ("hungfs", "hungfs"),
    ("sweep", "sweep"),
)
# by version of the control groups, where this kernel has them mounted with a freezer; every kernel has one of the two
FREEZERS = {
    version: root
    for version, root in ((1, CGROUPS / "freezer"), (2, CGROUPS / "unified"), (2, CGROUPS))
    if (root / "cgroup.procs").exists()
}
FREEZE = {
    1: "echo FROZEN >freezer.state && until grep -q FROZEN freezer.state; do sleep 0.02; done",
    2: "echo 1 >cgroup.freeze && until grep -q 'frozen 1' cgroup.events; do sleep 0.02; done",
}
# what becomes of a holder that is in place
GONE, WAITING = "! kill -0 {pid} 2>/dev/null", "grep -q request_wait_answer /proc/{pid}/task/*/wchan"
THEN = {
    "orphans": GONE,
    "spawned": GONE,
    "dead_leader": "grep -q '^State:.Z' /proc/{pid}/status",
    "hung": WAITING,
    "hung_thread": WAITING,
}
HELD = "ss -ltnH 'sport = :{port}'"
ANSWERS = "until ss -ltnH | grep -q ':22 '; do sleep 0.05; done"
SESSIONS = """\
listener=$(systemctl show -P MainPID ssh)
for pid in $(pgrep -x sshd); do [ "$pid" = "$listener" ] || kill -9 "$pid"; done"""
LOG = "cat /root/.local/state/hsconsole/audit.jsonl 2>/dev/null || true"


class Ground:
    """The container, reached over the host's lxc-attach. pids of holders are the container's."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self._hung = False
        self._frozen: Path | None = None
        self._outside: list[int] = []
        for source, module in MODULES:
            self.sh(f"mkdir -p {OPT}/sglang && cat >{OPT}/{module}.py", (SOURCES / f"{source}.py").read_text())

    def sh(self, script: str, stdin: str = "") -> str:
        """The output of `script`, run by root's shell in the container."""
        done = self.bed.inside("sh", "-c", script, stdin=stdin)
        assert done.returncode == 0, f"{script}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout.strip()

    def hold(
        self, way: str, *, user: str = "root", module: str = "sglang.launch_server", ours: bool = True, port: int = PORT
    ) -> int:
        """Start a holder and return its pid. ours: with the dump folder in its environment, as hsconsole starts it."""
        variables = {"BED": "1", "PYTHONPATH": OPT, **({"SGLANG_HS_DUMP_DIR": "/dev/shm/sglang_hs"} if ours else {})}
        environment = " ".join(f"{name}={value}" for name, value in variables.items())
        command = f"env {environment} python3 -m {module} --port {port} {way}"
        pid = self.sh(command if user == "root" else f"su {user} -c {shlex.quote(command)}")
        if way in THEN:
            self.sh(f"until {THEN[way].format(pid=pid)}; do sleep 0.02; done")
        return int(pid or 0)

    def hold_outside(self, way: str = "plain") -> int:
        """A holder in the container's network but outside of its PID namespace; returns the host's pid."""
        return self._on_host(f"nsenter -t {self.init_pid} -n", way)

    def hold_on_host(self, way: str = "plain") -> int:
        """A process of the host's own on the host's own port; returns the host's pid."""
        return self._on_host("", way)

    def _on_host(self, prefix: str, way: str) -> int:
        done = self.bed.host("sh", "-c", f"{prefix} python3 {SOURCES / 'holders.py'} --port {PORT} {way}")
        pid = int(done.stdout)
        self._outside.append(pid)
        return pid

    def kill_sessions(self) -> None:
        """Of the container's sshd; the listener lives on."""
        self.sh(SESSIONS)

    def recorded(self, action: str) -> list[str]:
        """What the container's audit log has of that action: begin, end, …"""
        entries = [json.loads(text) for text in self.sh(LOG).splitlines()]
        return [entry["kind"] for entry in entries if entry["action"] == action]

    def wait_until_free(self) -> float:
        """Until nobody holds the port; returns when that was, by the monotonic clock."""
        deadline = time.monotonic() + 120.0
        while self.is_held():
            assert time.monotonic() < deadline, self.sh("ss -ltnp; ps axo pid,stat,args")
            time.sleep(0.1)
        return time.monotonic()

    def wait_until_begun(self, action: str) -> None:
        self.wait_until(lambda: self.recorded(action)[-1:] == ["begin"], f"no {action} has begun")

    def wait_until(self, seen: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + 60.0
        while not seen():
            assert time.monotonic() < deadline, otherwise
            time.sleep(0.05)

    @property
    def init_pid(self) -> int:
        """The container's process 1 as the host sees it."""
        return int(self.bed.host("lxc-info", "-n", "129", "-p", "-H").stdout)

    def hang(self, *, outside: bool = False) -> None:
        """Mount a file system that does not answer. outside: served by the host, so that it outlives the container."""
        serve = f"setsid -f python3 {OPT}/hungfs.py /mnt/hung >/tmp/hung 2>&1 </dev/null"
        if outside:
            done = self.bed.host("nsenter", "-t", str(self.init_pid), "-m", "sh", "-c", serve)
            assert done.returncode == 0, done.stderr
        else:
            self.sh(serve)
        self.sh("until grep -q ready /tmp/hung; do sleep 0.05; done")
        self._hung = True

    def unhang(self) -> None:
        """Whoever waits for that file system gets an error and goes on, or ends."""
        if self._hung:
            self._hung = False
            self.bed.host("sh", "-c", "kill -9 $(pgrep -f '^python3 /opt/bed/hungfs.py')")
            self.bed.inside("umount", "-l", "/mnt/hung")

    def freeze(self, pid: int, version: int) -> Path:
        """Put a holder into a control group of the host's, inside of a frozen one; returns the frozen one's folder."""
        group = FREEZERS[version] / f"{self.bed.name}.frozen"
        done = self.bed.host("sh", "-c", f"mkdir -p {group}/x && echo {self.on_host(pid)} >{group}/x/cgroup.procs")
        assert done.returncode == 0, done.stderr
        return self._freeze(group, version)

    def freeze_all(self, version: int) -> Path:
        """The container as a whole, as a backup of the Proxmox host's does for a moment; returns its group's folder."""
        return self._freeze(FREEZERS[version] / f"{self.bed.name}.container", version)

    def _freeze(self, group: Path, version: int) -> Path:
        self._frozen = group
        done = self.bed.host("sh", "-c", f"cd {group} && {FREEZE[version]}")
        assert done.returncode == 0, done.stderr
        return group

    def thaw(self) -> None:
        if self._frozen is not None:
            thaw = "[ -e freezer.state ] && echo THAWED >freezer.state; [ -e cgroup.freeze ] && echo 0 >cgroup.freeze"
            self.bed.host("sh", "-c", f"cd {self._frozen} && {{ {thaw}; }}")
            self._frozen = None

    def on_host(self, pid: int) -> int:
        """The host's pid of the container's `pid`."""
        found = self.bed.host("sh", "-c", f"grep -lE '^NSpid:.*[[:space:]]{pid}$' /proc/[0-9]*/status").stdout
        return int(found.split("/")[2])

    def is_held(self, port: int = PORT) -> bool:
        return bool(self.sh(HELD.format(port=port)))

    def exists(self, pid: int) -> bool:
        """Is there a process `pid` in the container that has not ended?"""
        return self.sh(f"cut -d' ' -f3 /proc/{pid}/stat 2>/dev/null || true") not in ("", "Z")

    def exists_on_host(self, pid: int) -> bool:
        return self.bed.host("test", "-d", f"/proc/{pid}").returncode == 0

    def clean(self) -> None:
        """Nobody on the port, no holder, sshd up."""
        self.thaw()
        self.unhang()
        for pid in self._outside:
            self.bed.host("kill", "-9", str(pid))
        self._outside.clear()
        self._run_again()
        self.sh(f"python3 {OPT}/sweep.py")
        self.sh("pgrep -x sshd >/dev/null || systemctl restart ssh")
        self.sh("rm -rf /root/.local/state/hsconsole")
        self.wait_until_free()

    def _run_again(self) -> None:
        """A container that was stopped, or is on its way to it, is started."""
        state = ("lxc-info", "-n", "129", "-s", "-H")
        if self.bed.host(*state).stdout.strip() == "RUNNING" and self.bed.inside("true").returncode == 0:
            return
        self.bed.host("lxc-wait", "-n", "129", "-s", "STOPPED", "-t", "20")
        done = self.bed.host("pct", "start", "129")
        assert done.returncode == 0, done.stderr
        self.sh(ANSWERS)
