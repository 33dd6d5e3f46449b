"""A profile full of secrets, driven through everything that is shown, recorded or logged: none of them comes out."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import platformdirs
import pytest

from console import audit
from console.cli import crash, main, output
from console.config import load, write
from console.config.profile import Container, Dump, Profile, Server
from console.errors import OperatorError
from remote import processes
from remote.server import command, exits, launch, log, preflight, record, stop
from remote.wire.codec import encode
from remote.wire.masking import MASK, mask_argv, mask_json, mask_text, secrets_of
from remote.wire.plan import Check, Outcome, Plan, Step, StepResult, Verdict
from remote.wire.target import Target
from tests.unit.security.words import hostile
from tests.unit.server.conftest import StandIn, home, stand_in, until

__all__ = ["home", "stand_in"]  # fixtures: a stand-in for SGLang that runs as a real process

SECRETS = ("sk-live-0001", "admin-0002", "hf_0003secret", "pw-0004", "bearer-0005", "pass-0006", "abbr-0007")
FLAGS = (
    "--api-key sk-live-0001",
    "--admin-api-key",
    "admin-0002",
    "--ssl-keyfile-password=pass-0006",
    "--api-k abbr-0007",
    "--served-model-name",
    "https://ann:pw-0004@models.example/kimi",
)
ENV = {
    "HF_TOKEN": "hf_0003secret",
    "HTTPS_PROXY": "http://ann:pw-0004@proxy:3128",
    "SOME_AUTHORIZATION": "bearer-0005",
}
PROFILE = Profile(
    name="secret",
    container=Container(host="ct", python=sys.executable),
    server=Server(model_path="/m", flags=FLAGS, env=ENV),
    dump=Dump(layers=(3,)),
)


def clean(*told: Any) -> None:
    """Asserts that none of `told`, as JSON or as Python shows it, has a secret."""
    for value in told:
        for text in (json.dumps(encode(value), ensure_ascii=False, default=str), repr(value)):
            found = [secret for secret in SECRETS if secret in text]
            assert not found, (found, text[:3000])


def clean_files(folder: Path) -> int:
    count = 0
    for path in folder.rglob("*"):
        if path.is_file():
            count += 1
            text = path.read_text(errors="replace")
            assert not [secret for secret in SECRETS if secret in text], path
    return count


def test_all_secrets_are_known_as_such() -> None:
    assert set(secrets_of(FLAGS, ENV)) >= set(SECRETS)


def test_a_start_and_a_stop(stand_in: StandIn, tmp_path: Path) -> None:
    """Preflight, plan, steps, outcome, record, log's header, process list, the stop's plan."""
    target = dataclasses.replace(stand_in.target, env={**stand_in.target.env, **ENV}, flags=stand_in.target.flags)
    told: list[Any] = [preflight.examine(target)]
    plan = launch.plan(target)
    told += [plan, launch.start(target, plan.basis, told.append)]
    told += [processes.info(process) for process in processes.table().values() if "launch_server" in process.command]
    assert len(told) > 4
    ending = stop.plan(target)
    told += [ending, stop.stop(target, ending.basis, told.append)]
    clean(*told)
    assert clean_files(tmp_path / "state") >= 3


def test_the_command_line_with_every_secret_flag() -> None:
    target = PROFILE.target
    for known in (None, frozenset({"--api-key", "--admin-api-key", "--served-model-name"}), frozenset({"--x"})):
        line = command.command_line(target, known)
        clean(command.shown(command.argv(target, line), command.environment(target)), line.conflicts, line.translated)
        clean(line.unknown, mask_argv(command.argv(target, line)))


TEXTS = (
    "ServerArgs(model_path='/m', api_key='sk-live-0001', admin_api_key=\"admin-0002\", ssl_keyfile_password=None)",
    '{"api_key": "sk-live-0001", "hf_token":"hf_0003secret", "model": "m"}',
    "launch_server.py: error: unrecognized arguments: --api-key sk-live-0001",
    "--api-key=sk-live-0001; --admin-api-key 'admin-0002'\"'\"'pass-0006' and on",
    "No closing quotation: --api-key 'sk-live-0001",
    "['--api-key', 'sk-live-0001', '--tp', '8']",
    '["--api-key", "sk-live-0001", "--tp", "8"]',
    "curl -H 'Authorization: Bearer bearer-0005' http://h",
    "https://ann:pw-0004@more@proxy:3128/x and http://pw-0004@h",
    "DB_PASS=pw-0004 MYSQL_PWD='pw-0004' SESSION_COOKIE=pass-0006 SSH_PASSPHRASE=pass-0006 env HF_TOKEN=hf_0003secret",
)
HARMLESS = (
    "--max-total-tokens 4096 --keys 7 key=7 passive=1 BYPASS=1 OLDPWD=/home/ann PWD=/x the secret: none api_key=None",
    "Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.01, #running-req: 0",
    "git@github.com:x/y http://host/path@x http://host?to=a@b 'http://h','a@b'",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_is_told_by_what_stands_before_it(text: str) -> None:
    clean(mask_text(text), mask_argv(["sh", "-c", text]), mask_json({"a": [text]}))
    assert "more" not in mask_text(text)
    for word in ("model_path='/m'", '"model": "m"', "'--tp', '8'", " and on", "ssl_keyfile_password=None"):
        assert (word in mask_text(text)) is (word in text)


@pytest.mark.parametrize("text", HARMLESS)
def test_no_other_word_is_lost(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    "secret", ["it's\"a\\b", "p%40ss%2Fword", "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\n", "pä$ß"]
)
def test_a_known_secret_is_found_however_it_is_written(secret: str) -> None:
    known = secrets_of((), {"HF_TOKEN": secret})
    for text in (repr(secret), json.dumps(secret), shlex.quote(secret), unquote(secret), *secret.splitlines()):
        assert re.fullmatch(rf"x \W*{MASK}\W* y", mask_text(f"x {text} y", known)), text


def test_the_servers_own_log(stand_in: StandIn) -> None:
    """SGLang writes all its options into it, and quotes the flags that it refuses."""
    target = dataclasses.replace(stand_in.target, env=ENV, flags=FLAGS)
    path = log.path_of(target)
    everything = [*TEXTS, *(f"by its value: {secret}" for secret in SECRETS)]
    Path(path).write_text("\n".join([*everything, ""]))
    told: list[Any] = []
    ended = threading.Event()
    thread = threading.Thread(target=log.follow, args=(target, 100, told.append, ended))
    thread.start()
    try:
        until(lambda: told)
        with Path(path).open("a") as file:
            file.write("\n".join([*everything, ""]))
        until(lambda: len(told) > 1)
    finally:
        ended.set()
        thread.join()
    clean(log.tail(target, 100), *told)
    assert len(log.tail(target, 100).lines) == 2 * len(everything)
    started = record.Record(target.port, 1, 1, record.boot_id(), (), (), path, time.time(), "x")
    death = exits.cause(started, target)
    assert "unrecognized arguments" in death.what
    clean(death)


def test_a_process_that_runs_a_line_of_shell() -> None:
    """As tmux, nohup and docker do: all of it is one word."""
    line = f"sleep 60 # --api-key {SECRETS[0]} HF_TOKEN={SECRETS[2]}"
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", line]) as process:
        try:
            found = processes.read(process.pid)
            assert found is not None
            clean(found.command, processes.info(found))
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["outcome", "error", "fault"])
def test_the_audit_log(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSCONSOLE_STATE_DIR", str(tmp_path))
    everything = " ".join(SECRETS)

    def work(on_step: Callable[[StepResult], None], ticket: object) -> Outcome:
        clean(ticket)
        on_step(StepResult("Start", False, f"SGLang said: {everything}"))
        if kind == "error":
            raise OperatorError(f"it failed with {everything}", everything)
        if kind == "fault":
            raise ValueError(everything)
        return Outcome("x", True, everything, (Check("c", Verdict.OK, everything, everything),))

    plan = Plan("x", everything, True, (Step(everything, f"env HF_TOKEN={SECRETS[2]}"),), (everything,), (everything,))
    if kind == "outcome":
        audit.record(PROFILE, "x", work, lambda _: None, plan)
    else:
        with pytest.raises((OperatorError, ValueError)):
            audit.record(PROFILE, "x", work, lambda _: None, plan)
    assert clean_files(tmp_path) == 2


def test_a_crash_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_log_dir", lambda *_: str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "hf_0003secret")
    try:
        raise ValueError("run ['--api-key', 'sk-live-0001'] at https://ann:pw-0004@h/ with hf_0003secret")
    except ValueError as error:
        clean(crash.crash(error).report())
    assert clean_files(tmp_path) == 1


def test_a_crash_report_knows_the_profiles_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_log_dir", lambda *_: str(tmp_path / "log"))
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    write.write(PROFILE)
    (tmp_path / "profiles" / "broken.toml").write_text("[")
    try:
        raise ValueError(f"it said {' and '.join(SECRETS)}")
    except ValueError as error:
        clean(crash.crash(error).report())
    assert clean_files(tmp_path / "log") == 1


def test_profiles_as_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    write.write(PROFILE)
    for more in ([], ["--json"]):
        assert main.run(["--profile", "secret", "profiles", *more]) == 0
        shown = capsys.readouterr()
        assert "HF_TOKEN" in shown.out
        clean(shown.out, shown.err)


WRONG = {
    "flags as one text": 'flags = "--api-key sk-live-0001"\n',
    "a flag that is no text": 'flags = ["--api-key", ["sk-live-0001"]]\n',
    "a flag with NUL": 'flags = ["--api-key sk-live-0001\\u0000"]\n',
    "env as a list": 'env = ["HF_TOKEN=hf_0003secret"]\n',
    "env with a table": 'env = { HF_TOKEN = { a = "hf_0003secret" } }\n',
    "a table where text should be": 'host = { "--api-key" = "sk-live-0001" }\n',
    "a list where text should be": 'host = ["--api-key", "sk-live-0001"]\n',
    "a command line where a number should be": 'port = "8000 --api-key sk-live-0001"\n',
    "a login": 'host = "http://ann:pw-0004@proxy\\u0000"\n',
    "env with NUL": 'env = { HF_TOKEN = "hf_0003secret\\u0000" }\n',
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_profile(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    path = load.path_of("bad")
    path.parent.mkdir(parents=True)
    path.write_text(f'[container]\nhost = "ct"\npython = "/p"\n[server]\nmodel_path = "/m"\n{WRONG[name]}')
    for more in ([], ["--json"]):
        assert main.run(["--profile", "bad", "status", *more]) == 3
        shown = capsys.readouterr()
        assert "server." in shown.out + shown.err
        clean(shown.out, shown.err)


VARIABLES = {
    "HSCONSOLE_SERVER_FLAGS": "--api-key 'sk-live-0001",
    "HSCONSOLE_SERVER_ENV": '{ HF_TOKEN = "hf_0003secret" ',
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_what_is_wrong_with_a_variable(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HSCONSOLE_CONFIG_DIR", str(tmp_path))
    write.write(PROFILE)
    monkeypatch.setenv(variable, VARIABLES[variable])
    assert main.run(["--profile", "secret", "status"]) == 3
    shown = capsys.readouterr()
    assert variable in shown.err
    clean(shown.out, shown.err)


@pytest.mark.parametrize("seed", range(6))
def test_any_secret_between_any_words(seed: int) -> None:
    """By its value, wherever it stands; no other text is lost."""
    for word in hostile(seed):
        secret = f"hf_{seed}{word[:40]}_end"
        known = secrets_of((), {"HF_TOKEN": secret})
        assert secret not in json.dumps(mask_json({"a": [f"x {secret} y"]}, known), ensure_ascii=False)
        assert secret not in mask_text(f"{word}{secret}{word}", known)


def test_masking_long_hostile_text_takes_no_time() -> None:
    unfinished = ("--api-key '", "api_key=", "KEY=", "Bearer ", "://a", "secret ")
    for text in ("-", "A_", "://", "--api-key ", "'", "://" + "a" * 100_000, *unfinished):
        command_line = [
            sys.executable,
            "-c",
            "import sys; from remote.wire.masking import mask_text; mask_text(sys.stdin.read())",
        ]
        subprocess.run(command_line, input=(text * (300_000 // len(text))).encode(), check=True, timeout=20)


def test_a_plan_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The agent masks what it plans; the terminal shows just that."""
    target = Target(sys.executable, "/m", flags=FLAGS, env=ENV)
    line = command.command_line(target, None)
    shown = command.shown(command.argv(target, line), command.environment(target))
    output.print_plan(Plan("server.start", "Start", True, (Step("Start the server", shown),)))
    clean(capsys.readouterr().out)
