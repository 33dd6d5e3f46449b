"""The server's own count of what it prefilled, from its log, against the dumps that came meanwhile."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional

from remote.server import log
from remote.server.lines import Splitter
from remote.wire.plan import Check, Verdict
from remote.wire.target import Target

NAME = "log against dumps"
_LINE = re.compile(r"Prefill batch\b.*?#new-seq: (\d+).*?#new-token: (\d+)", re.ASCII)
_RANK = re.compile(r"\b(?:(DP\d+) )?TP(\d+)\b", re.ASCII)
_WAIT_S = 3.0  # the line may be written after the answer
_BUSY_S = 30.0  # what others sent is logged before it is computed, and that before it is dumped
_LOOK_S = 0.2
_LIMIT = 16 << 20  # bytes of log since the beginning


class Prefilled(NamedTuple):
    """Requests and tokens. A request in chunks counts once a chunk."""

    requests: int
    tokens: int


class Dumped(NamedTuple):
    """sent: all that is dumped since, or should be. others: of those not the canary's own.

    taken: others of which a consumer, or another console's canary, took the dump away.
    """

    sent: Prefilled
    others: int = 0
    taken: int = 0


class PrefillLog:
    """What the log says from now on."""

    def __init__(self, target: Target) -> None:
        self.path = log.path_of(target)
        self._identity: Optional[tuple[int, int]] = None
        self._offset = 0
        self.problem = ""
        try:
            status = os.stat(self.path)
            self._identity, self._offset = (status.st_dev, status.st_ino), status.st_size
        except OSError as error:
            self.problem = f"no log of this server at {self.path}: {error.strerror}"

    def check(self, look: Callable[[], Dumped], cancelled: threading.Event) -> Check:
        """look: how things are now."""
        found, (dumped, others, taken) = self._wait(look, cancelled)
        if found is None:
            return Check(NAME, Verdict.UNKNOWN, self.problem, "Start the server with hsconsole, which keeps its log.")
        said = f"log: {found.requests} requests, {found.tokens} tokens; dumps: {dumped.requests}, {dumped.tokens}"
        if found == dumped:
            return Check(NAME, Verdict.OK, said)
        if not found.requests:
            return Check(NAME, Verdict.UNKNOWN, f"{self.path} has no `Prefill batch` line since: is it this server's?")
        if others or taken:
            what = f"{said}; {others + taken} requests of others ran"
            return Check(NAME, Verdict.UNKNOWN, what, "Run it while none do.")
        if _as_health_checks(found, dumped):
            more = found.requests - dumped.requests
            return Check(NAME, Verdict.WARN, f"{said}: {more} of one token each, as health checks are", _QUIET)
        return Check(NAME, Verdict.BAD, said, "Rows were dumped twice, merged or left out: look at the server's log.")

    def _wait(self, look: Callable[[], Dumped], cancelled: threading.Event) -> tuple[Optional[Prefilled], Dumped]:
        """Until both say the same, or will not."""
        began = time.monotonic()
        while True:
            found, dumped = self._read(), look()
            patience = _BUSY_S if found and _are_computed(found, dumped) else _WAIT_S
            if found is None or found == dumped.sent or time.monotonic() - began > patience or cancelled.wait(_LOOK_S):
                return found, dumped

    def _read(self) -> Optional[Prefilled]:
        if self.problem:
            return None
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_dev, status.st_ino) != self._identity or status.st_size < self._offset:
                    self.problem = f"{self.path} was replaced or cut meanwhile"
                    return None
                file.seek(self._offset)
                data = file.read(_LIMIT)
        except OSError as error:
            self.problem = f"{self.path} can't be read: {error.strerror}"
            return None
        return count(Splitter().feed(data))


def _are_computed(found: Prefilled, dumped: Dumped) -> bool:
    """Whether requests are in the log that have no number yet."""
    more = found.requests > dumped.sent.requests + dumped.taken and found.tokens > dumped.sent.tokens
    return more and not _as_health_checks(found, dumped.sent)


def _as_health_checks(found: Prefilled, dumped: Prefilled) -> bool:
    """Whether what the log has more are requests of one token."""
    return 0 < found.requests - dumped.requests == found.tokens - dumped.tokens


def count(lines: Sequence[str]) -> Prefilled:
    """Over the lines of all ranks but those that repeat what another says: of each DP its first TP, else TP0."""
    matches = [match for match in map(_LINE.search, lines) if match]
    ranks = [_rank(match.string[: match.start()]) for match in matches]
    first: dict[str, int] = {}
    for part, rank in ranks:
        first[part] = min(rank, first.get(part, rank)) if part else 0
    found = [match for match, (part, rank) in zip(matches, ranks) if rank == first[part]]
    return Prefilled(sum(int(match[1]) for match in found), sum(int(match[2]) for match in found))


def _rank(prefix: str) -> tuple[str, int]:
    """Of data-parallel attention or a replica, empty where there is none, and of the tensor-parallel group."""
    match = _RANK.search(prefix)
    return (match[1] or "", int(match[2])) if match else ("", 0)


_QUIET = "Set SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0, as a start by hsconsole does."
