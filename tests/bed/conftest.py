"""The bed, one for the session; every test here sits at its laptop. What can't come up fails; nothing is skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.config.profile import Container, Dump, Profile, Proxmox, Server
from tests.bed.container import PORT, Ground
from tests.bed.machines import VMID, Bed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(600))  # the first may have to build the container's root


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    made = Bed()
    try:
        made.up()
    except AssertionError as error:
        pytest.fail(str(error), pytrace=False)
    yield made
    made.down()


@pytest.fixture
def profile(bed: Bed) -> Iterator[Profile]:
    """The profile of the bed's container; the test that takes it runs at the laptop."""
    with bed.laptop():
        yield profile_of(bed)


def profile_of(bed: Bed, *, user: str | None = None, port: int = PORT, proxmox_user: str | None = None) -> Profile:
    return profile_at(bed.ssh_config, user=user, port=port, proxmox_user=proxmox_user)


def profile_at(
    ssh_config: Path, *, user: str | None = None, port: int = PORT, proxmox_user: str | None = None
) -> Profile:
    config = str(ssh_config)
    return Profile(
        name="bed",
        container=Container(host="container", python="/usr/bin/python3", user=user, ssh_config=config),
        proxmox=Proxmox(host="proxmox", vmid=VMID, user=proxmox_user, ssh_config=config),
        server=Server(model_path="/models/none", port=port),
        dump=Dump(folder="/dev/shm/sglang_hs"),
    )


@pytest.fixture
def ground(bed: Bed) -> Iterator[Ground]:
    """The container as tests set it up; afterwards as it was, with nobody on the port."""
    made = Ground(bed)
    yield made
    made.clean()
