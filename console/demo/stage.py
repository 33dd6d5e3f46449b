"""Everything the demo needs, up for as long as a block runs, and put back after it, however it ends."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from console.config.profile import Profile
from console.config.write import render
from console.demo import leftovers, profile
from console.demo.endings import ending_is_an_interrupt, undisturbed
from console.demo.engine import Engine, build, cache_folder
from console.demo.locks import exclusive
from console.demo.progress import OnProgress, Reporter
from console.demo.sshd import Sshd, serve

PATIENCE = 600.0  # seconds to wait for another demo: a whole check takes less


@dataclasses.dataclass(frozen=True)
class Stage:
    """config_folder: with it as HSCONSOLE_CONFIG_DIR, `hsconsole` in another terminal sees this demo too."""

    profile: Profile
    engine: Engine
    sshd: Sshd
    config_folder: Path


@contextlib.contextmanager
def stage(on_progress: OnProgress, patience: float = PATIENCE) -> Iterator[Stage]:
    """The engine built, sshd up, a profile named `demo`; afterwards no process, no patch and no dump is left.

    One at a time for a user, because there is one engine to patch: a second waits for `patience` seconds.
    Raises DemoError.
    """
    report = Reporter(on_progress)
    engine = build(on_progress)
    folder = cache_folder() / "stage"
    with (
        ending_is_an_interrupt(),
        exclusive(folder / "lock", "running the demo", lambda who: report("waiting for another demo", who), patience),
        serve(folder / "ssh", _places(folder)) as sshd,
    ):
        record = folder / "record.json"
        leftovers.heal(record, sshd, report)
        made = Stage(profile.profile(engine, sshd), engine, sshd, folder / "config")
        _write_profile(made)
        leftovers.write(record, made.profile, sshd)
        try:
            yield made
        finally:
            with undisturbed():
                leftovers.put_back(made.profile, report)
                record.unlink()


def _places(folder: Path) -> dict[str, str]:
    """Where 'the container' keeps its records, its originals and the agent: apart from this user's own."""
    return {
        "XDG_STATE_HOME": str(folder / "container" / "state"),
        "XDG_CACHE_HOME": str(folder / "container" / "cache"),
    }


def _write_profile(made: Stage) -> None:
    place = made.config_folder / "profiles"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{made.profile.name}.toml").write_text(render(made.profile))
