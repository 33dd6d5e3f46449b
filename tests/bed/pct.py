#!/usr/bin/env python3
"""A stand-in for Proxmox VE's `pct` over real LXC, as strict about its arguments as the real one.

Options are Getopt::Long's: permuted, abbreviated, with one dash or two, and `--keep-env` takes the next word.
Commands run through the real lxc-attach, lxc-start and lxc-stop.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

CONFIGS = Path("/etc/pve/lxc")
LOCKS = Path("/run/lock/lxc")
LOCK_WAIT = 10.0  # seconds
PATH = "/sbin:/bin:/usr/sbin:/usr/bin"
BOOLEANS = {"": True, "0": False, "off": False, "no": False, "false": False}
BOOLEANS |= {"1": True, "on": True, "yes": True, "true": True}
# by command: option → takes a boolean (its value may be left out)
OPTIONS: dict[str, dict[str, bool]] = {
    "exec": {"keep-env": True},
    "status": {"verbose": True},
    "list": {},
    "config": {"current": True, "snapshot": False},
    "start": {"skiplock": True, "debug": True},
    "stop": {"skiplock": True, "overrule-shutdown": True},
    "shutdown": {"timeout": False, "forceStop": True},
    "reboot": {"timeout": False},
}


class Failed(Exception):
    """Ends pct with these words and this exit status."""

    def __init__(self, words: str, status: int = 255) -> None:
        super().__init__(words)
        self.status = status


def parse(command: str, words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options and the rest, as Getopt::Long finds them. Raises Failed when it would."""
    known = OPTIONS[command] if command == "list" else {**OPTIONS[command], "vmid": False}
    given: dict[str, str] = {}
    rest: list[str] = []
    failed = False
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += words
            break
        match = re.match(r"--?(.+)$", word, re.DOTALL)
        if match is None:
            rest.append(word)
            continue
        name, equals, value = match[1].partition("=")
        option = lookup(name.lower(), known)
        failed = failed or not option
        if option and equals:
            given[option] = value
        elif option:
            bare = known[option] and (not words or words[0].startswith("-"))
            given[option] = "" if bare or not words else words.pop(0)
    if failed:
        raise Failed("400 unable to parse option\n")
    for option, value in given.items():
        if known[option] and value.lower() not in BOOLEANS:
            raise Failed("400 unable to parse boolean option\n")
    return given, rest


def lookup(name: str, known: dict[str, bool]) -> str:
    """The option that `name` may be short for; nothing, with words on stderr, when there is none."""
    hits = [option for option in known if option.lower() == name]
    hits = hits or [option for option in known if option.lower().startswith(name)]
    if len(hits) == 1:
        return hits[0]
    sys.stderr.write(f"Option {name} is ambiguous ({', '.join(hits)})\n" if hits else f"Unknown option: {name}\n")
    return ""


def configuration(vmid: str) -> dict[str, str]:
    try:
        text = (CONFIGS / f"{vmid}.conf").read_text()
    except OSError:
        raise Failed(f"Configuration file 'nodes/pve/lxc/{vmid}.conf' does not exist\n", 2) from None
    pairs = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


def running(vmid: str) -> bool:
    """LXC's monitor listens on an abstract socket for as long as its container runs."""
    return f"@/var/lib/lxc/{vmid}/command" in Path("/proc/net/unix").read_text()


@contextlib.contextmanager
def locked(vmid: str) -> Iterator[None]:
    LOCKS.mkdir(parents=True, exist_ok=True)
    path = LOCKS / f"pve-config-{vmid}.lock"
    with path.open("a") as file:
        deadline = time.monotonic() + LOCK_WAIT
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not told:
                    told = True
                    sys.stderr.write("trying to acquire lock...\n")
                if time.monotonic() > deadline:
                    raise Failed(f"can't lock file '{path}' - got timeout\n") from None
                time.sleep(0.05)
        yield


def refuse_config_lock(vmid: str) -> None:
    held = configuration(vmid).get("lock")
    if held:
        raise Failed(f"CT is locked ({held})\n")


def execute(vmid: str, options: dict[str, str], words: list[str]) -> None:
    """Becomes lxc-attach: input, output and exit status are its own."""
    configuration(vmid)
    if not running(vmid):
        raise Failed(f"container '{vmid}' not running!\n")
    if not words:
        raise Failed("missing command at /usr/share/perl5/PVE/CLI/pct.pm line 245.\n")
    keep = "--keep-env" if BOOLEANS[options.get("keep-env", "1").lower()] else "--clear-env"
    os.execvp("lxc-attach", ["lxc-attach", "-n", vmid, keep, "--", *words])


def start(vmid: str) -> None:
    if subprocess.call(["lxc-start", "-d", "-n", vmid], stdin=subprocess.DEVNULL):
        raise Failed(f"startup for container '{vmid}' failed\n")


def stop(vmid: str, *options: str) -> None:
    """Returns when the container has ended, however long that takes: as the real one, without a limit of its own."""
    command = ["lxc-stop", "-n", vmid, *options]
    status = subprocess.call(command, stdin=subprocess.DEVNULL)
    if status:
        sys.stderr.write(f"command '{' '.join(command)}' failed: exit code {status}\n")
    while running(vmid):
        time.sleep(0.02)


def change(command: str, vmid: str, options: dict[str, str]) -> None:
    up = running(vmid)
    if command == "start" and up:
        raise Failed(f"CT {vmid} already running\n")
    if command != "start" and not up:
        raise Failed(f"{'VM' if command == 'reboot' else 'CT'} {vmid} not running\n")
    with locked(vmid):
        if "skiplock" not in options:
            refuse_config_lock(vmid)
        if command == "start":
            start(vmid)
        elif command == "stop":
            stop(vmid, "--kill")
        else:
            stop(vmid, "--timeout", options.get("timeout", "60"))
            if command == "reboot":
                start(vmid)


def listing() -> None:
    rows = [("VMID", "Status", "Lock", "Name")]
    for path in sorted(CONFIGS.glob("*.conf")):
        config = configuration(path.stem)
        state = "running" if running(path.stem) else "stopped"
        rows.append((path.stem, state, config.get("lock", ""), config.get("hostname", "")))
    if len(rows) > 1:
        sys.stdout.writelines(f"{a:<10} {b:<10} {c:<12} {d:<20}\n" for a, b, c, d in rows)


def main(words: list[str]) -> None:
    os.environ["PATH"] = PATH
    command = words[0] if words else ""
    if command not in OPTIONS:
        raise Failed(f"ERROR: unknown command 'pct {command}'\n")
    options, rest = parse(command, words[1:])
    if command == "list":
        listing()
        return
    vmid = options.get("vmid") or (rest.pop(0) if rest else "")
    if not vmid:
        raise Failed("400 not enough arguments\n")
    if not re.fullmatch(r"[1-9][0-9]{2,8}", vmid):
        raise Failed(f"400 Parameter verification failed.\nvmid: type check ('integer') failed - got '{vmid}'\n")
    if command == "exec":
        execute(vmid, options, rest)
    elif rest:
        raise Failed("400 too many arguments\n")
    elif command == "status":
        configuration(vmid)
        print(f"status: {'running' if running(vmid) else 'stopped'}")
    elif command == "config":
        sys.stdout.writelines(f"{key}: {value}\n" for key, value in sorted(configuration(vmid).items()))
    else:
        configuration(vmid)
        change(command, vmid, options)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Failed as error:
        sys.stderr.write(str(error))
        sys.exit(error.status)
