"""From import to a dumper at work."""

from __future__ import annotations

import atexit
import functools
import os
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Optional

from . import loaded, log, release, settings
from .folder import Folder
from .identity import VERSION, digest_of, own_files
from .problem import Problem, problem_of
from .request import Origin, Recorder
from .room import Room
from .stats import Stats
from .writers import Writers

if TYPE_CHECKING:
    from .dumper import Dumper

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def start(environ: Mapping[str, str]) -> Optional[Dumper]:
    """Prepare the folder, say what was loaded, and return the dumper; None, with the reason in the log, when it can't
    work at all. Never raises: the server must start."""
    try:
        return _start(settings.read(environ), loaded.importing_file(_PACKAGE))
    except Exception as error:
        problem = problem_of(error)
        log.say(f"{VERSION} OFF, nothing will be dumped: {problem.cause}. {problem.detail}")
        return None


def _start(wanted: settings.Settings, model_file: Optional[str]) -> Dumper:
    from .dumper import Dumper  # imports torch

    digest = digest_of(own_files(_PACKAGE))
    origin = Origin(uuid.uuid4().hex, os.getpid(), wanted.layers, release.version(), VERSION, digest)
    record = functools.partial(loaded.record, wanted.folder, origin, model_file, time.time())
    folder = Folder(wanted.folder, record)
    folder.prepare()
    loaded.forget_dead(wanted.folder)
    record()
    stats = Stats(wanted.folder)
    writers = Writers(Recorder(folder, Room(wanted.folder), origin), stats)
    atexit.register(writers.drain)
    log.say(
        f"{VERSION} digest {digest[:12]} loaded by {model_file} layers {list(wanted.layers)} → {wanted.folder}"
        + (f" REFUSED: {wanted.problem}" if wanted.problem else "")
    )
    problem = Problem("the settings of the dumper are wrong", wanted.problem) if wanted.problem else None
    return Dumper(wanted.layers, problem, writers, stats)
