"""The real stack: SGLang on the CPU, a real sshd, one engine for all. What can't come up fails; nothing is skipped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo.engine import Engine, build
from console.demo.progress import Progress
from console.demo.stage import Stage
from console.demo.stage import stage as set_stage
from console.errors import OperatorError

# These set stages of their own, and there is one engine to patch: they come before the stage that others share.
OWN_STAGE = "test_main_job"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: not item.path.is_relative_to(here) or item.path.stem != OWN_STAGE)
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(1200))  # the first of them may have to build the engine


def tell(progress: Progress) -> None:
    print(f"{progress.seconds:7.1f} s  {progress.stage}  {progress.detail}", file=sys.stderr, flush=True)


@pytest.fixture(scope="session", autouse=True)
def _compiled_once() -> Iterator[None]:
    """Whatever the shell says: thousands of modules, in each of three processes of each server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The environment with SGLang and the tiny model, built when it isn't there."""
    try:
        return build(tell)
    except OperatorError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def engine_python(engine: Engine) -> Path:
    """A Python with torch, safetensors, transformers and SGLang. Run it apart: it is another environment than ours."""
    return engine.python


@pytest.fixture(scope="session")
def stage(engine: Engine) -> Iterator[Stage]:
    """sshd and a profile for the engine, shared by the session: leave the server stopped and the patch reverted."""
    try:
        with set_stage(tell) as made:
            yield made
    except OperatorError as error:
        pytest.fail(str(error), pytrace=False)
