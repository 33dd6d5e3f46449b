"""Blocking work off the UI's thread, awaited on it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from console.errors import OperatorError, as_operator_error

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The value of `function`, run in a thread of its own.

    Raises what it raises; anything but an OperatorError comes as one. The thread is a daemon: leaving the screen
    never waits for an answer that does not come.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: OperatorError | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type] # T may be None itself

    def work() -> None:
        value: T | None = None
        error: OperatorError | None = None
        try:
            value = function(*args, **kwargs)
        except Exception as raised:
            error = as_operator_error(raised)
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name=f"screen: {function}", daemon=True).start()
    return await future
