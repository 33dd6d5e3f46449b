"""Which model file is meant: the one that the profile's model runs through."""

from __future__ import annotations

import os
from typing import Callable

from remote.patch import files, marks
from remote.patch.anchors import defines_forward
from remote.patch.recipes import ARCHITECTURES, DEEPSEEK, MODEL_FILES, ModelFile
from remote.server import model
from remote.wire.errors import Refused
from remote.wire.target import Target

Choose = Callable[[Target, str], ModelFile]


class UnknownModelError(Refused):
    """The model runs through no file that a recipe is for, or doesn't say through which."""

    id = "refused.model"
    title = "The patch does not know this model"


class UnreadableModelError(UnknownModelError):
    """The model doesn't say what it is."""


def of_model(target: Target, package: str) -> ModelFile:
    """The file that runs the layers of the target's model, in the sglang package in folder `package`."""
    config = model.config(target.model_path)
    if config is None or not config.architectures:
        what = f"{target.model_path} has no config.json that can be read and names the model's architecture"
        raise UnreadableModelError(what, "Set server.model_path to the folder that holds the model's config.json.")
    known = [ARCHITECTURES[name] for name in config.architectures if name in ARCHITECTURES]
    if not known:
        what = f"{target.model_path} is a {', '.join(config.architectures)}, and there is no recipe for that"
        remedy = f"It can be served, not dumped. Set server.model_path to one of these: {', '.join(ARCHITECTURES)}."
        raise UnknownModelError(what, remedy)
    return _with_layers(known[0], package)


def _with_layers(file: ModelFile, package: str) -> ModelFile:
    source = files.read(os.path.join(package, file.path))
    if file.base is None or source is None or defines_forward(source, file.model_class, file.base.model_class):
        return file
    return file.base


def to_show(target: Target, package: str) -> ModelFile:
    """As `of_model`; where the model can't be read, a patched file if there is one."""
    try:
        return of_model(target, package)
    except UnreadableModelError:
        found = patched(package)
        if not found:
            raise
        return found[0]


def to_revert(target: Target, package: str) -> ModelFile:
    """As `of_model`; a patch can be taken out whatever became of the model."""
    try:
        return of_model(target, package)
    except UnknownModelError:
        return next(iter(patched(package)), DEEPSEEK)


def patched(package: str) -> list[ModelFile]:
    """The model files below `package` that bear marks of the patch."""
    return [file for file in MODEL_FILES if marks.has_marks(files.read(os.path.join(package, file.path)) or b"")]
