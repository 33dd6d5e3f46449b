"""An action over a link that may go meanwhile: never asked for twice; what became of it is asked for by its id."""

from __future__ import annotations

import contextlib
import threading
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from console.cancel import Cancel
from console.client import CUT_OFF, AgentClient
from console.errors import (
    AuthenticationFailed,
    ConfigError,
    HostKeyChanged,
    HostKeyUnknown,
    LinkError,
    LinkLost,
    NoAnswer,
    NotAsked,
    OperatorError,
    from_report,
)
from remote.wire.audit import Became, Fate, Ticket
from remote.wire.codec import decode
from remote.wire.plan import OnStep, StepResult

if TYPE_CHECKING:
    from console.operations.calls import Agent

ASK = 10.0  # seconds for the answer: a log is read, and a line written
EVERY = 1.0
PATIENCE = 120.0  # seconds for the link to come back, where nobody is there to give the wait up
LOST, SILENT = "The link was lost on the way", "No answer came in time"
FOLLOWED, LEARNED = "Follow it in the container", "What became of it"
TITLES = (LOST, SILENT, FOLLOWED, LEARNED)  # of steps that are told here, none of them the action's own


class NeverBegun(LinkLost):
    id = "link.never_begun"
    title = "The link was lost before it began"


class CutOff(LinkLost):
    id = "link.cut_off"
    title = "It was cut off midway"


class Wait:
    """The wait of an action for the next link. seconds: None waits until it is given up.

    waiting: the link has gone; what becomes of the action is not known yet.
    """

    def __init__(self, seconds: float | None = PATIENCE) -> None:
        self.waiting = False
        self._seconds = seconds
        self._until: float | None = None
        self._given_up = threading.Event()

    def begin(self) -> None:
        self.waiting = True
        self._until = None if self._seconds is None else time.monotonic() + self._seconds

    def give_up(self) -> None:
        """From any thread: the action then ends with LinkLost."""
        self._given_up.set()

    def pause(self) -> bool:
        """For a moment. False when the wait is over."""
        over = self._until is not None and time.monotonic() > self._until
        return not over and not self._given_up.wait(EVERY)


def act(
    agent: Agent,
    name: str,
    ticket: Ticket | None,
    on_step: OnStep,
    *,
    timeout: float,
    wait: Wait | None = None,
    cancel: Cancel | None = None,
    **args: Any,
) -> Any:
    """As agent.call for what leaves a trace. When the link goes meanwhile: the same answer, learned afterwards.

    ticket: None for what can't be asked for, as it is no action of its own.

    Raises NeverBegun when it can't have begun and won't, CutOff when the agent ended midway, LinkLost when it could
    not be learned, and what the call itself raises.
    """
    told: list[StepResult] = []

    def take(event: Any) -> None:
        told.append(decode(StepResult, event))
        on_step(told[-1])

    try:
        return agent.call(name, timeout=timeout, on_event=take, cancel=cancel, ticket=ticket, **args)
    except NotAsked:
        raise
    except (LinkLost, NoAnswer) as error:
        if ticket is None:
            raise
        cut = error
    title = LOST if isinstance(cut, LinkLost) else SILENT
    on_step(StepResult(title, ok=False, detail=f"{cut.what}. What became of it is asked as soon as there is a link."))
    fate = _learned(agent, ticket, cut, on_step, wait or Wait())
    if fate.became is Became.NEVER and told:
        raise _unknown(cut, ticket, "it had begun, but no log there tells of it")
    for step in fate.steps[len(told) :]:
        on_step(step)
    return _answer(fate)


def _answer(fate: Fate) -> Any:
    if fate.became is Became.NEVER:
        raise NeverBegun("it never began in the container, and can't any more", "Nothing was changed: ask again.")
    if fate.became is Became.CUT_OFF:
        what = f"begun at {fate.at}; the agent in the container is not at it any more, and noted no end"
        raise CutOff(what, "Some of its steps may be done: look how things are, then ask again.")
    if fate.error is not None:
        raise from_report(fate.error)
    return fate.result


def _learned(agent: Agent, ticket: Ticket, cut: LinkError, on_step: OnStep, wait: Wait) -> Fate:
    """Ask until it is over, over as many links as that takes."""
    began = time.monotonic()
    followed = False
    wait.begin()
    while wait.pause():
        try:
            with again(agent) as link:
                fate = _fate(link, ticket)
                while fate.became is Became.RUNNING and wait.pause():
                    if not followed:
                        on_step(StepResult(FOLLOWED, ok=True, detail=f"it goes on there, begun at {fate.at}"))
                    followed = True
                    fate = _fate(link, ticket)
        except (HostKeyUnknown, HostKeyChanged, AuthenticationFailed, ConfigError) as error:
            raise _unknown(cut, ticket, error.what) from None
        except LinkError:
            continue
        except OperatorError as error:
            raise _unknown(cut, ticket, error.what) from None
        if fate.became is not Became.RUNNING:
            wait.waiting = False
            on_step(StepResult(LEARNED, True, fate.became.value, time.monotonic() - began))
            return fate
    raise _unknown(cut, ticket, "it goes on in the container" if followed else "the link did not come back")


def _fate(link: Agent, ticket: Ticket) -> Fate:
    return decode(Fate, link.call("audit.fate", timeout=ASK, ident=ticket.id))


def again(agent: Agent) -> AbstractContextManager[Agent]:
    """The agent, over a line that lives. A Link comes back by itself; of a client whose line went there is another.

    Raises as `connect`.
    """
    if isinstance(agent, AgentClient) and agent.lost is not None:
        return contextlib.closing(agent.renew())
    return contextlib.nullcontext(agent)


def _unknown(cut: LinkError, ticket: Ticket, why: str) -> LinkLost:
    later = f"Later, `hsconsole audit show --where container` tells, by the id {ticket.id}."
    return LinkLost(f"{cut.what}. What became of it could not be learned: {why}", f"{CUT_OFF}\n{later}")
