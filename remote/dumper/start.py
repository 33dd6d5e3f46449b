"""From import to a dumper at work."""

from __future__ import annotations

import atexit
import os
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from . import loaded, log, release, settings
from .folder import Folder
from .identity import VERSION, digest_of, own_files
from .problem import Problem, problem_of
from .request import Desk, Origin
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
    from . import birth  # these import torch
    from .dumper import Dumper

    digest = digest_of(own_files(_PACKAGE))
    origin = Origin(uuid.uuid4().hex, os.getpid(), wanted.layers, release.version(), VERSION, digest)
    claim = _Claim(wanted.folder, origin, model_file)
    folder = Folder(wanted.folder, claim.record)
    folder.prepare()
    loaded.forget_dead(wanted.folder)
    claim.record()
    stats, writers = Stats(wanted.folder), Writers()
    atexit.register(writers.drain)
    log.say(f"{VERSION} digest {digest[:12]} loaded by {model_file} layers {list(wanted.layers)} → {wanted.folder}")

    def desk(writes: bool, rank: int) -> Desk:
        """Ranks above 0 write what a canary asks them for, and beside the requests."""
        place = folder if writes else Folder(os.path.join(wanted.folder, ".ranks", str(rank)))
        return Desk(place, Room(wanted.folder), origin)

    dumper = Dumper(wanted, desk, writers, stats, claim.refuse)

    def prepare(device: Any) -> None:
        claim.record()  # by now every model file has been imported
        dumper.prepare(device)

    birth.when_model_is_built(prepare)
    return dumper


class _Claim:
    """What this process says of itself in `.loaded`, said again when that is lost or changes.

    first: the model file whose import brought the dumper in. A file's hash is that of the time when it was imported.
    """

    def __init__(self, folder: str, origin: Origin, first: Optional[str]) -> None:
        self._folder = folder
        self._origin = origin
        self._started = time.time()
        self._files = {} if first is None else {first: loaded.sha256(first)}
        self._problem: Optional[Problem] = None

    def record(self) -> None:
        for path in loaded.also_importing(__package__ or ""):
            if path not in self._files:
                self._files[path] = loaded.sha256(path)
        loaded.record(self._folder, self._origin, self._files, self._started, self._problem)

    def refuse(self, problem: Problem) -> None:
        self._problem = problem
        self.record()
