"""Everything the patch needs to know about one SGLang installation, seen at one moment."""

from __future__ import annotations

import base64
import contextlib
import csv
import dataclasses
import glob
import hashlib
import os
import subprocess
from typing import Optional

from remote.interpreter import Environment, environment, with_sglang
from remote.patch import files, marks, package, seam
from remote.patch.choice import Choose, patched
from remote.patch.recipes import ModelFile
from remote.patch.store import Record, Store
from remote.statedir import StateDirError, state_dir
from remote.wire.errors import PatchError
from remote.wire.target import Target

GIT_TIMEOUT = 10.0  # seconds


@dataclasses.dataclass(frozen=True)
class Look:
    """One model file and what surrounds it.

    file: which; path: the real one, links followed. marked: None where marks do not pair, as marks_problem says.
    woven: what the patch makes of the file without our lines; None where no recipe fits, as `misfit` says.
    release_sha256: of the file as the release came, where the installation says. store: None without a state folder.
    dumper_folder: where the dumper belongs; dumper_digest: of what is there.
    also_patched: other model files of this package that bear the patch, and so need the dumper.
    """

    environment: Environment
    package: str
    file: ModelFile
    path: str
    raw: bytes
    sha256: str
    marked: Optional[marks.Marked]
    marks_problem: str
    foreign: bool
    woven: Optional[seam.Woven]
    misfit: str
    release_sha256: Optional[str]
    store: Optional[Store]
    record: Optional[Record]
    dumper_folder: str
    dumper_digest: Optional[str]
    also_patched: tuple[str, ...]

    @property
    def patched(self) -> bool:
        return self.marked is None or bool(self.marked.lines)

    @property
    def exact(self) -> bool:
        """The file is just what this hsconsole makes of the rest of it."""
        return self.woven is not None and self.woven.content == self.raw

    @property
    def dumper_known(self) -> bool:
        """There is no dumper, or one that hsconsole put there."""
        records = self.store.records() if self.store else []
        return self.dumper_digest in {None, package.shipped_digest(), *(one.dumper_digest for one in records)}

    @property
    def release(self) -> Optional[str]:
        return self.environment.interpreter.sglang_version


def take(target: Target, choose: Choose) -> Look:
    """Look at the SGLang that `target.python` imports, at the model file that `choose` says.

    Raises NoSglangError, PatchError, or what `choose` raises.
    """
    seen, folder = _installation(target)
    return _look(seen, folder, choose(target, folder))


def at(look: Look, file: ModelFile) -> Look:
    """The same installation, at another of its model files, as it is now. Raises PatchError."""
    return _look(look.environment, look.package, file)


def beside(look: Look) -> tuple[Look, ...]:
    """The other model files of this package that bear the patch."""
    return tuple(at(look, other) for other in patched(look.package) if other != look.file)


def _look(seen: Environment, folder: str, file: ModelFile) -> Look:
    path, raw = _read(seen, folder, file)
    marked, marks_problem = _marked(raw)
    foreign = bool(marked and not marked.lines and marks.foreign_lines(raw))
    woven, misfit = (None, "") if marked is None or foreign else _woven(marked.base, file)
    store = _store()
    dumper_folder = os.path.join(_dumper_home(folder, seen), seam.PACKAGE)
    return Look(
        environment=seen,
        package=folder,
        file=file,
        path=path,
        raw=raw,
        sha256=files.sha256(raw),
        marked=marked,
        marks_problem=marks_problem,
        foreign=foreign,
        woven=woven,
        misfit=misfit,
        release_sha256=_released(folder, file, seen.interpreter.sglang_version),
        store=store,
        record=store.record(path) if store else None,
        dumper_folder=dumper_folder,
        dumper_digest=package.installed_digest(dumper_folder),
        also_patched=tuple(os.path.join(folder, other.path) for other in patched(folder) if other != file),
    )


def _installation(target: Target) -> tuple[Environment, str]:
    """The environment of `target.python`, and the folder of the sglang package that it imports."""
    seen = environment(target.python, target.env)
    interpreter = seen.interpreter
    if interpreter.problem or interpreter.sglang_file is None:
        raise NoSglangError(f"{target.python} {interpreter.problem}", _others())
    return seen, os.path.dirname(interpreter.sglang_file)


def _read(seen: Environment, folder: str, file: ModelFile) -> tuple[str, bytes]:
    """The model file's real path, and what it holds."""
    path = os.path.realpath(os.path.join(folder, file.path))
    raw = files.read(path)
    if raw is None:
        what = f"sglang {seen.interpreter.sglang_version or '?'} in {folder} has no {file.path}"
        raise NoModelFileError(what, "Install a whole sglang there.")
    return path, raw


class NoSglangError(PatchError):
    id = "patch.no_sglang"
    title = "No sglang to patch"


class NoModelFileError(PatchError):
    id = "patch.no_model_file"


def _others() -> str:
    having = ", ".join(f"{one.path} ({one.sglang_version})" for one in with_sglang())
    return f"Set container.python in the profile to one that has sglang: {having or 'none was found'}."


def _marked(raw: bytes) -> tuple[Optional[marks.Marked], str]:
    try:
        return marks.take_apart(raw), ""
    except marks.BrokenMarksError as error:
        return None, error.what


def _woven(base: bytes, file: ModelFile) -> tuple[Optional[seam.Woven], str]:
    try:
        return seam.weave(base, file), ""
    except seam.UnknownReleaseError as error:
        return None, error.what


def _store() -> Optional[Store]:
    try:
        return Store(state_dir())
    except StateDirError:
        return None


def _dumper_home(sglang: str, seen: Environment) -> str:
    """Beside the package, if modules are found there; an editable install may map `sglang` alone."""
    beside = os.path.dirname(os.path.realpath(sglang))
    on_path = any(os.path.realpath(entry) == beside for entry in seen.path)
    return beside if on_path else os.path.realpath(seen.site)


def _released(sglang: str, file: ModelFile, version: Optional[str]) -> Optional[str]:
    """The SHA-256 (hex) of the model file by the installed wheel's RECORD; None for checkouts. Raises PatchError."""
    for record in glob.glob(
        os.path.join(glob.escape(os.path.dirname(sglang)), f"sglang-{version}.dist-info", "RECORD")
    ):
        try:
            with open(record, encoding="utf-8", newline="") as source:
                hashes = {row[0]: row[1] for row in csv.reader(source) if len(row) > 1}
        except (OSError, ValueError, csv.Error):
            continue
        kind, _, digest = hashes.get(f"sglang/{file.path}", "").partition("=")
        if kind == "sha256":
            return _hex(digest, record)
    return None


def _hex(digest: str, record: str) -> str:
    """A digest of RECORD (base64 for URLs, without padding) as hex."""
    with contextlib.suppress(ValueError):
        decoded = base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4))
        if len(decoded) == hashlib.sha256().digest_size:
            return decoded.hex()
    raise PatchError(f"{record} is damaged: {digest[:60]!r} is no SHA-256", "Install this release of sglang anew.")


def committed(path: str) -> Optional[bytes]:
    """The file as the last commit of its git checkout has it; None where there is none to ask."""
    folder, name = os.path.split(path)
    command = ["git", "--no-optional-locks", "-C", folder, "show", f"HEAD:./{name}"]
    try:
        shown = subprocess.run(command, capture_output=True, timeout=GIT_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return shown.stdout if shown.returncode == 0 and shown.stdout else None
