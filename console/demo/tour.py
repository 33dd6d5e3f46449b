"""`hsconsole demo`: the stage, and what to do on it first."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from console.config.profile import Profile
from console.demo.progress import OnProgress
from console.demo.stage import Stage, stage

OpenScreen = Callable[[Profile, str], None]

FIRST_STEPS = """\
First steps: p a patches · s starts (half a minute) · t tests, enter opens the dump · x stops · p v reverts · \
esc goes back · q leaves, and all is put back"""


def tour(on_progress: OnProgress, open_screen: OpenScreen) -> None:
    """Set the stage, open the screen on it, and put everything back when it closes. Raises DemoError."""
    with stage(on_progress) as made:
        open_screen(made.profile, hint(made))


def hint(made: Stage) -> str:
    """What the screen shows at first."""
    return f"{FIRST_STEPS}\nIn another terminal: {command(made.config_folder)}"


def command(config_folder: Path) -> str:
    """What sees the demo from another terminal: by its path where the shell would not find hsconsole."""
    program = "hsconsole" if shutil.which("hsconsole") else _typed(Path(sys.argv[0]).absolute())
    return f"HSCONSOLE_CONFIG_DIR={_typed(config_folder)} {program} status"


def _typed(path: Path) -> str:
    """`path` as a shell reads it, from the home folder on where it lies there."""
    home = Path.home()
    return f"~/{shlex.quote(str(path.relative_to(home)))}" if path.is_relative_to(home) else shlex.quote(str(path))
