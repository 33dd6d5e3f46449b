"""A verification under way, or its end: all results counted, of each kind the first ones kept, the worst kind first."""

from __future__ import annotations

from collections import Counter, deque

from console.cancel import Cancel
from console.errors import OperatorError
from console.operations import calls
from console.tui.console import Console
from console.tui.threads import in_thread
from remote.wire.dumps import Level, Verified, VerifyProgress, VerifyResult, VerifySummary

WORST_FIRST = (
    Verified.BAD,
    Verified.ERROR,
    Verified.UNVERIFIED,
    Verified.WARN,
    Verified.GONE,
    Verified.WRITING,
    Verified.OK,
)
MOST = 1000  # results of a kind that are kept
RATE_WINDOW = 5.0  # seconds


class Verification:
    """numbers: of which dumps; None: all. Times are monotonic seconds. total: how many, None until that is known.

    `put` may be called from any thread; all else is the UI thread's.
    """

    level = Level.CONTENT

    def __init__(self, numbers: tuple[int, ...] | None, started: float) -> None:
        self.numbers = numbers
        self.started = started
        self.cancel = Cancel()
        self.counts: Counter[Verified] = Counter()
        self.bytes = 0
        self.done = 0
        self.total: int | None = None
        self.ended: float | None = None
        self.summary: VerifySummary | None = None
        self.error: OperatorError | None = None
        self._come: deque[VerifyProgress] = deque()
        self._kept: dict[Verified, list[VerifyResult]] = {verdict: [] for verdict in WORST_FIRST}
        self._places: dict[int, tuple[Verified, int]] = {}
        self._history: deque[tuple[float, int, int]] = deque()

    async def run(self, console: Console) -> None:
        """To its end, which is `summary` or `error`."""
        try:
            self.summary = await in_thread(
                calls.dumps_verify,
                console.agent,
                console.picture.profile,
                self.numbers,
                self.level,
                self.put,
                self.cancel,
            )
        except OperatorError as error:
            self.error = error
        self.ended = console.picture.clock.monotonic()
        self.take(self.ended)

    def stop(self) -> bool:
        """Ask it to end; False when it has ended, or was asked before."""
        return self.ended is None and self.cancel.ask()

    def put(self, progress: VerifyProgress) -> None:
        self._come.append(progress)

    def take(self, now: float) -> bool:
        """Take in what came since; was there any."""
        came = False
        while self._come:
            came = True
            progress = self._come.popleft()
            self.done, self.total = progress.done, progress.total
            for result in progress.results:
                self._keep(result)
        if came:
            self._history.append((now, self.done, self.bytes))
            while len(self._history) > 2 and now - self._history[1][0] >= RATE_WINDOW:
                self._history.popleft()
        return came

    def _keep(self, result: VerifyResult) -> None:
        self.counts[result.verdict] += 1
        self.bytes += result.bytes
        kept = self._kept[result.verdict]
        if len(kept) < MOST:
            self._places[result.number] = (result.verdict, len(kept))
            kept.append(result)

    def rates(self) -> tuple[float, float] | None:
        """Dumps and bytes a second, over the last seconds; None while unknown."""
        if not self._history:
            return None
        (since, done, size), (until, done_now, size_now) = self._history[0], self._history[-1]
        if len(self._history) == 1:
            since, done, size = self.started, 0, 0
        span = until - since
        return ((done_now - done) / span, (size_now - size) / span) if span > 0 else None

    @property
    def unlisted(self) -> int:
        """Results that were counted and not kept."""
        return sum(self.counts.values()) - len(self)

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def at(self, index: int) -> VerifyResult:
        for verdict in WORST_FIRST:
            kept = self._kept[verdict]
            if index < len(kept):
                return kept[index]
            index -= len(kept)
        raise IndexError(index)

    def number_at(self, index: int) -> int:
        return self.at(index).number

    def index_of(self, number: int) -> int | None:
        if number not in self._places:
            return None
        verdict, place = self._places[number]
        return place + sum(len(self._kept[worse]) for worse in WORST_FIRST[: WORST_FIRST.index(verdict)])
