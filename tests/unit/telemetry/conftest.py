from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nvml import Agent, Driver, build, usual

StartAgent = Callable[..., Agent]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """The driver that all agents of these tests see; each test says how it is."""
    return Driver(tmp_path_factory.mktemp("driver") / "plan")


@pytest.fixture(scope="module")
def agent(driver: Driver, library: Path) -> Iterator[Agent]:
    """One that is asked again and again, and watches nothing."""
    made = Agent(driver, library)
    yield made
    made.kill()


@pytest.fixture
def start(driver: Driver, library: Path) -> Iterator[StartAgent]:
    """Starts agents of the test's own, with the stand-in library or another one."""
    driver.says(*usual(8))
    agents: list[Agent] = []

    def make(*options: str, library: Path | None = library, path: str | None = None) -> Agent:
        agents.append(Agent(driver, library, *options, path=path))
        return agents[-1]

    yield make
    for agent in agents:
        agent.kill()
