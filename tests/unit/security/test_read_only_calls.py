"""No function of the core asks the agent for anything that changes the container while the profile is read-only.

Which calls those are is told by the agent's own code, and which functions there are by the console's.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import console
from console import audit, operations
from console.config.profile import Container, Profile, Proxmox, Server
from console.errors import LinkError, Refused
from console.operations.recovery_wish import Wish
from remote.agent.calls import CALLS
from remote.agent.loop import ACTIONS as LEFT_TO_END
from remote.wire.dumps import Level
from remote.wire.plan import Plan
from remote.wire.server import Phase, ServerState
from remote.wire.telemetry import GpuSnapshot

PROFILE = Profile(
    name="ro",
    read_only=True,
    container=Container(host="ct", python="/p"),
    server=Server(model_path="/m"),
    proxmox=Proxmox(host="127.0.0.1", vmid=129, port=1),
)
SOURCES = Path(console.__file__).parent
# an action's call takes the ticket by which both audit logs tell of it; the question for its fate may forbid it
CHANGING = {name for name, handler in CALLS.items() if "ticket" in inspect.signature(handler).parameters}
CHANGING |= {"audit.fate"}
GIVEN: dict[str, Any] = {
    "profile": PROFILE,
    "confirmed": Plan("server.stop", "x", True, basis={"way": "link", "processes": [[1, 2]]}),
    "wish": Wish(),
    "numbers": None,
    "level": Level.MEANING,
    "cancel": None,
    "checks": (),
    "server": ServerState(Phase.READY, "", 0.0, 8000),
    "seen": GpuSnapshot(0.0, ()),
}


class Asked(LinkError):
    """Of any question that only looks: there is nothing to answer."""


class Looked:
    """An agent that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def call(self, name: str, **args: Any) -> Any:
        self.asked.append(name)
        raise Asked(name)


def test_the_calls_that_change_something() -> None:
    assert set(LEFT_TO_END) < CHANGING
    assert {"run", "recover.end", "dumps.test", "dumps.verify", "canary", "audit.fate"} == CHANGING


def asked(tree: ast.AST) -> set[str]:
    """Which changing calls are asked for below `tree`, by any agent.call("…") or fate.act(agent, "…")."""
    return {
        argument.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".call", ".stream", "fate.act"))
        for argument in node.args
        if isinstance(argument, ast.Constant) and argument.value in CHANGING
    }


def modules() -> Iterator[str]:
    for module in pkgutil.iter_modules(operations.__path__, f"{operations.__name__}."):
        yield module.name


def test_only_the_core_asks_for_them() -> None:
    asking = {
        path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if asked(ast.parse(path.read_text()))
    }
    assert asking == {"operations/calls.py", "operations/fate.py", "operations/recover.py"}


def functions() -> dict[str, Callable[..., Any]]:
    """Public functions of the core that know the profile."""
    found: dict[str, Callable[..., Any]] = {}
    for module in modules():
        for name, function in vars(importlib.import_module(module)).items():
            own = inspect.isfunction(function) and function.__module__ == module and not name.startswith("_")
            if own and "profile" in inspect.signature(function).parameters:
                found[f"{module.rpartition('.')[2]}.{name}"] = function
    return found


FUNCTIONS = functions()


def test_the_functions_are_found() -> None:
    assert {"calls.run", "calls.canary", "calls.dump_test", "calls.dumps_verify", "recover.run"} <= set(FUNCTIONS)
    assert len(FUNCTIONS) > 9


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_that_changes_is_asked(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path))
    agent = Looked()
    known = {"agent": agent, "connect": lambda _: agent, **GIVEN}
    parameters = inspect.signature(FUNCTIONS[name]).parameters.values()
    given = {p.name: known.get(p.name, lambda *_: None) for p in parameters if p.default is p.empty or p.name in known}
    records = "audit.record" in inspect.getsource(FUNCTIONS[name])
    with pytest.raises(Refused, match="read-only") if records else contextlib.suppress(Exception):
        FUNCTIONS[name](**given)
    assert not set(agent.asked) & CHANGING
    assert not (records and agent.asked)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_the_refusal_is_in_the_one_way_of_all_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path))
    for action in ("server.stop", "something new"):
        with pytest.raises(Refused, match="read-only"):
            audit.record(PROFILE, action, lambda *_: pytest.fail("it began"), print)
    assert not list(tmp_path.rglob("*"))
