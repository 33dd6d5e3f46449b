"""Calls and streams over a real sshd, with the agent pushed and started as an operator's would be."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from console.cancel import Cancel
from console.client import AgentClient, connect
from console.config.profile import Container, Profile, Server
from console.errors import LinkLost, NoAnswer, Refused, RemoteFault, WireError
from console.operations import calls
from remote.wire.plan import StepResult
from tests.link.conftest import packed
from tests.living import PATIENCE


def test_hello_says_who_answers(client: AgentClient) -> None:
    hello = client.hello
    assert hello.digest == packed().digest == hashlib.sha256(packed().data).hexdigest()
    assert hello.notes == ()
    assert abs(hello.now - time.time()) < 120
    assert client.call("path")[0].endswith(f"/.cache/hsconsole/agent-{hello.digest}.pyz")


def test_the_target_is_the_profiles(client: AgentClient) -> None:
    target = client.call("target")
    assert (target["model_path"], target["port"], target["layers"]) == ("/models/m", 8123, [3, 31, 59])


@pytest.fixture
def client(shared_client: AgentClient) -> AgentClient:
    return shared_client


VALUES: list[Any] = [None, True, 1.5, "text ü \udc80 \0 \x1b[31m", [1, [2]], {"a": {"b": []}}]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_come_back_as_they_went(client: AgentClient, value: Any) -> None:
    assert client.call("echo", value=value) == value


def test_an_operators_error_keeps_its_class_and_remedy(client: AgentClient) -> None:
    with pytest.raises(Refused) as caught:
        client.call("refuse")
    assert (caught.value.what, caught.value.remedy) == ("it is Sunday", "Wait for Monday.")


@pytest.mark.parametrize(("name", "what"), [("fault", "IndexError"), ("unencodable", "TypeError")])
def test_a_fault_of_the_agent_is_told_without_a_traceback(client: AgentClient, name: str, what: str) -> None:
    with pytest.raises(RemoteFault) as caught:
        client.call(name)
    assert caught.value.id == "agent.fault"
    assert f"{name}: {what}" in caught.value.what
    assert "Traceback" not in str(caught.value)
    assert client.call("echo", value=1) == 1


def test_a_call_that_is_not_known(client: AgentClient) -> None:
    with pytest.raises(WireError, match="no call is named 'nonsense'"):
        client.call("nonsense")


def test_l03_five_mebibytes_on_stdout_and_stderr(client: AgentClient) -> None:
    count = 5 << 20
    assert client.call("flood", count=count) == count
    assert len(client.call("big", count=count)) == count


def test_handlers_find_nothing_on_stdin(client: AgentClient) -> None:
    assert client.call("read") == ""


@pytest.mark.parametrize("early", [True, False], ids=["before it is asked", "while it runs"])
def test_a_call_that_is_cancelled_still_answers(client: AgentClient, early: bool) -> None:
    cancel, seen = Cancel(), []

    def begun(value: str) -> None:
        seen.append(value)
        assert cancel.ask()
        assert not cancel.ask()

    if early:
        cancel.ask()
        with contextlib.suppress(Refused):  # it may be told of it before its turn comes
            assert client.call("until_cancelled", timeout=30, cancel=cancel) == "cancelled"
    else:
        assert client.call("until_cancelled", timeout=30, on_event=begun, cancel=cancel) == "cancelled"
        assert seen == ["begun"]
    assert client.call("echo", value=1) == 1


def test_a_canary_is_told_as_it_goes_and_ends_when_it_is_cancelled(
    client: AgentClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path))
    used = Profile(name="ct", container=Container(host="ct", python="/p"), server=Server(model_path="/m"))
    cancel, seen = Cancel(), []

    def on_step(step: StepResult) -> None:
        seen.append(step.title)
        cancel.ask()

    found = calls.canary(client, used, on_step, cancel)
    assert seen == ["prompt"]
    assert (found.stopped, found.ok) == (True, False)
    (log,) = (tmp_path / "audit").glob("*.jsonl")
    kinds = [(entry["kind"], entry["action"]) for entry in map(json.loads, log.read_text().splitlines())]
    assert kinds[1:] == [("begin", "canary"), ("end", "canary")]


def test_events_renew_the_patience(client: AgentClient) -> None:
    seen: list[int] = []
    assert client.call("steps", timeout=2.0, on_event=seen.append, count=24, pause=0.1) == "done"
    assert seen == list(range(24))


def test_patience_ends(client: AgentClient) -> None:
    with pytest.raises(NoAnswer, match="until_cancelled"):
        client.call("until_cancelled", timeout=0.3)
    assert client.call("echo", value=1) == 1


def test_many_threads_ask_at_once(client: AgentClient) -> None:
    answers: dict[int, Any] = {}

    def ask(number: int) -> None:
        answers[number] = [client.call("echo", value=[number, i, "x" * 2000]) for i in range(10)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answers[n] == [[n, i, "x" * 2000] for i in range(10)] for n in range(20))


def test_slow_calls_do_not_hold_up_others_or_the_heartbeat(client: AgentClient) -> None:
    begun: SimpleQueue[Any] = SimpleQueue()
    cancels = [Cancel() for _ in range(12)]

    def slow(cancel: Cancel) -> None:
        client.call("until_cancelled", on_event=begun.put, cancel=cancel)

    with ThreadPoolExecutor(len(cancels)) as pool:
        pool.map(slow, cancels)
        for _ in cancels:
            begun.get(timeout=PATIENCE)
        client.call("ping")
        for cancel in cancels:
            cancel.ask()


def test_a_stream_goes_on_until_closed(client: AgentClient) -> None:
    seen: list[Any] = []
    some = threading.Event()

    def take(value: Any) -> None:
        seen.append(value["number"])
        if len(seen) == 3:
            some.set()

    stream = client.stream("watch.ticks", take, pause=0.02)
    assert some.wait(60)
    stream.close()
    time.sleep(0.2)
    count = len(seen)
    time.sleep(0.2)
    assert len(seen) == count
    assert seen == list(range(count))


def test_a_stream_tells_how_it_ended(client: AgentClient) -> None:
    ends: list[Any] = []
    both = threading.Semaphore(0)

    def ended(error: Any) -> None:
        ends.append(error)
        both.release()

    client.stream("watch.ends", lambda _: None, ended)
    assert both.acquire(timeout=60)
    client.stream("watch.fault", lambda _: None, ended)
    assert both.acquire(timeout=60)
    assert ends[0] is None
    assert isinstance(ends[1], RemoteFault)


def test_a_console_that_does_not_read_blocks_the_agent_not_its_memory(client: AgentClient) -> None:
    go_on, blocked = threading.Event(), threading.Event()

    def stall(_: Any) -> None:
        blocked.set()
        go_on.wait(60)

    stream = client.stream("watch.wide", stall, size=1 << 20)
    assert blocked.wait(60)
    time.sleep(1.0)
    status = Path(f"/proc/{client.hello.pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    go_on.set()
    stream.close()
    assert resident < 100_000  # kB
    assert client.call("echo", value=1) == 1


def test_the_heartbeat_measures(client: AgentClient) -> None:
    deadline = time.monotonic() + 60
    while client.heartbeat.round_trip is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert 0 < client.heartbeat.round_trip < 10
    assert abs(client.heartbeat.clock_offset) < 10


def test_after_close_every_call_says_so(profile: Profile) -> None:
    client = connect(profile)
    waiting: list[BaseException] = []

    def wait() -> None:
        try:
            client.call("sleep", seconds=20)
        except LinkLost as error:
            waiting.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    client.close()
    thread.join(15)  # before its call is answered
    assert len(waiting) == 1
    with pytest.raises(LinkLost, match="closed here"):
        client.call("ping")
