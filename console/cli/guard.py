"""Standard output that can't be written is an error of its own, told on stderr, not a fault of hsconsole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TextIO

from console.errors import OperatorError


class OutputLost(OperatorError):
    id = "output"
    title = "What there is to say can't be written"
    exit_code = 74  # EX_IOERR, as sysexits has it


class Guarded:
    """A text stream whose write and flush raise OutputLost.

    A reader who has read enough ends nothing: what was asked for goes on unread, and the exit status says its end.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._unread = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._tell(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._tell(self._stream.flush)

    def end_unread(self) -> None:
        """Raise BrokenPipeError where the reader has left."""
        if self._unread:
            raise BrokenPipeError

    def _tell(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BrokenPipeError:
            self._unread = True
            let_go(self._stream)
        except OSError as error:
            remedy = "Make room, or send it elsewhere. What was asked may have been done: look before you ask again."
            raise OutputLost(f"standard output: {error.strerror or error}", remedy) from None


def let_go(stream: TextIO) -> None:
    """Give what is still to be written to nobody, so that the end of Python does not stumble over it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
