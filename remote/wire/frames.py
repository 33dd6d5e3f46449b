"""The frames of the link: one JSON object a line, UTF-8, each with the number of the call it belongs to.

console → agent   {"id": 7, "call": "patch.status", "args": {…}}      ask
                  {"id": 7, "cancel": true}                           stop asking (ends a stream)
agent → console   NONCE {"hello": {…}}                                once, first; whatever came before it is noise
                  {"id": 7, "event": …}                               any number, before the end
                  {"id": 7, "ok": …}  or  {"id": 7, "error": {…}}     the end of a call

A stream is a call that sends events until it is cancelled. All values are what `codec.encode` makes.
"""

from __future__ import annotations

import json
from typing import Any

from .codec import encode
from .errors import ErrorReport, WireError

PROTOCOL = 1


def ask(number: int, call: str, args: dict[str, Any]) -> bytes:
    return _line({"id": number, "call": call, "args": encode(args)})


def cancel(number: int) -> bytes:
    return _line({"id": number, "cancel": True})


def hello(nonce: str, value: Any) -> bytes:
    return nonce.encode("ascii") + b" " + _line({"hello": encode(value)})


def event(number: int, value: Any) -> bytes:
    return _line({"id": number, "event": encode(value)})


def ok(number: int, value: Any) -> bytes:
    return _line({"id": number, "ok": encode(value)})


def error(number: int, report: ErrorReport) -> bytes:
    return _line({"id": number, "error": encode(report)})


def parse(line: bytes) -> dict[str, Any]:
    """One frame from its line. Raises WireError when it isn't one."""
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError(f"not a frame: {line[:120]!r}") from None
    if not isinstance(frame, dict):
        raise WireError(f"not a frame: {line[:120]!r}")
    return frame


def _line(frame: dict[str, Any]) -> bytes:
    # surrogates of undecodable names become \udcXX escapes: always ASCII, always valid JSON
    return json.dumps(frame, separators=(",", ":")).encode("ascii") + b"\n"
