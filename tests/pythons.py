"""Other Pythons at hand: remote/ has to run on the oldest and the newest of them."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

OLDEST = (3, 9)
PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "~/.pyenv/versions/*/bin", "~/.local/bin")
NAME = re.compile(r"python3(\.\d+)?$")


@functools.cache
def at_hand() -> dict[tuple[int, int], Path]:
    """One interpreter of each minor version that remote/ supports, oldest first."""
    found: dict[tuple[int, int], Path] = {}
    for place in PLACES:
        pattern = str(Path(place).expanduser()).lstrip("/")
        for folder in sorted(Path("/").glob(pattern)):
            for python in sorted(path for path in folder.glob("python3*") if NAME.search(path.name)):
                version = _version(python)
                if version >= OLDEST:
                    found.setdefault(version, python)
    return dict(sorted(found.items()))


def oldest_and_newest() -> list[Path]:
    pythons = list(at_hand().values())
    return [pythons[0], pythons[-1]] if len(pythons) > 1 else pythons


def _version(python: Path) -> tuple[int, int]:
    command = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        major, minor = map(int, said.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0, 0
    return major, minor
