"""Moments of a console's life, as values the container would send: a theme a file, and all of them here."""

from __future__ import annotations

from tests.ui.scenes.basics import *  # noqa: F403
from tests.ui.scenes.dumps import *  # noqa: F403
from tests.ui.scenes.machine import *  # noqa: F403
from tests.ui.scenes.patch import *  # noqa: F403
from tests.ui.scenes.plays import *  # noqa: F403
from tests.ui.scenes.proof import *  # noqa: F403
from tests.ui.scenes.recovery import *  # noqa: F403
from tests.ui.scenes.restart import *  # noqa: F403
from tests.ui.scenes.server import *  # noqa: F403
