"""What a canary's verdict is called, in a word and in a sentence, wherever it is told."""

from __future__ import annotations

from remote.wire.plan import Verdict

NAMES = {
    Verdict.OK: "well",
    Verdict.WARN: "in doubt",
    Verdict.BAD: "faulty",
    Verdict.UNKNOWN: "unknown",
}
WORDS = {
    Verdict.OK: "the dumps of this server mean what they should",
    Verdict.WARN: "look at what is marked",
    Verdict.BAD: "do NOT use the dumps of this server",
    Verdict.UNKNOWN: "not everything could be looked at",
}
CANCELLED = "cancelled: it says nothing"
WAITING = "four requests; the first one after a start compiles kernels, which takes a minute or two on GPUs"
