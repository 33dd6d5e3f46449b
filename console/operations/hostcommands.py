"""What a recovery has the Proxmox host do, each in one line for a shell: the line that a plan shows is what runs.

By plain `sh`: no agent runs there. What was printed decides, never an exit status.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from console.text import harmless
from remote.wire.signals import marked

# Arguments: SIGNAL PID:START_TICKS…, the latter as field 22 of /proc/PID/stat has it; signal 0 only looks.
# Says of each, behind its argument: gone, there STATE, sent, or failed WHY.
SIGNAL = (
    'n=$1; shift; for i; do s=$(cat "/proc/${i%:*}/stat" 2>/dev/null); set -f; set -- ${s##*) }; '
    'if [ "${20}" != "${i#*:}" ]; then echo "$i gone"; elif [ "$n" = 0 ]; then echo "$i there $1"; '
    'elif w=$(kill -s "$n" "${i%:*}" 2>&1); then echo "$i sent"; else echo "$i failed $w"; fi; done'
)
ANSWER = re.compile(r"^(\d+:\d+) (gone|there [A-Za-z]|sent|failed.*)$", re.MULTILINE)
RESTART_SSHD = (
    "systemctl restart ssh 2>/dev/null || systemctl restart sshd 2>/dev/null || "
    "{ mkdir -p /run/sshd; setsid -f /usr/sbin/sshd </dev/null >/dev/null 2>&1; }"
)


def sh(script: str, *arguments: str) -> list[str]:
    """`script` run by sh whatever the login shell is, its arguments from $1 on."""
    return ["sh", "-c", script, "hsconsole", *arguments]


def signal(name: str, identities: Iterable[Iterable[int]]) -> list[str]:
    """name: TERM, KILL, or 0 to ask only who is still there. identities: pid and start time of each."""
    return sh(SIGNAL, name, *marked(identities))


def answers(output: str) -> dict[str, str]:
    """What `signal` said, by argument; whatever else a login shell printed is nothing."""
    return {match[1]: harmless(match[2]) for match in ANSWER.finditer(output)}


def thaw(file: str) -> list[str]:
    """file: `freezer.state` or `cgroup.freeze` of a frozen control group."""
    return sh('printf %s "$2" >"$1"', file, "THAWED" if file.endswith("/freezer.state") else "0")


def bounded(seconds: float, command: str, vmid: int) -> list[str]:
    """`pct stop` has no limit of its own and would keep the container's lock."""
    return ["timeout", f"{seconds:.0f}", "pct", command, f"{vmid:d}"]


def line(prefix: str, words: Iterable[str]) -> str:
    """prefix: what makes it root's: nothing for root, `sudo -n ` for others."""
    return prefix + shlex.join(words)
