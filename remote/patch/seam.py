"""The patch itself: its few lines, woven into a model file at the places of its recipe."""

from __future__ import annotations

import ast
import dataclasses
import functools
import sys
from typing import Union

from remote.patch import marks
from remote.patch.anchors import AnchorMissingError, Place, Places, find
from remote.patch.recipes import ModelFile, Recipe, known_releases, recipes_of
from remote.wire.errors import Refused

PACKAGE = "hsconsole_dumper"  # the dumper's name beside SGLang

IMPORTS = (
    "import os as _hs_dump_os",
    "_HS_DUMP = None",
    'if _hs_dump_os.environ.get("SGLANG_HS_DUMP_DIR"):',
    f"    import {PACKAGE} as _HS_DUMP",
)
BEGIN = ("_hs_dump = None if _HS_DUMP is None else _HS_DUMP.begin(self, input_ids, positions, forward_batch)",)
CAPTURE = (
    "if _hs_dump is not None and {index} in _hs_dump.layers:",
    "    _hs_dump.capture({index}, lambda: {before})",
)
FINISH = ("if _hs_dump is not None:", "    _hs_dump.finish(hidden_states)")


class UnknownReleaseError(Refused):
    """No recipe fits this model file."""

    id = "refused.release"
    title = "This release of SGLang is not known"


@dataclasses.dataclass(frozen=True)
class Woven:
    """A model file with the patch in it, and the recipe that fitted."""

    content: bytes
    recipe: Recipe


@functools.lru_cache(maxsize=4)  # an action looks several times at the same file
def weave(base: bytes, file: ModelFile) -> Woven:
    """Put the patch into `base`, what `file` holds without it.

    The result compiles, and taken apart it is `base` again. Raises UnknownReleaseError naming the anchor that failed.
    """
    try:
        return _weave(base, recipes_of(file))
    except _MisfitError as error:
        remedy = f"The file was not changed. Releases this hsconsole knows: {known_releases(file)}."
        raise UnknownReleaseError(f"{file.path.rpartition('/')[2]} {error}", remedy) from None


class _MisfitError(Exception):
    """Why a model file can't take the patch, said of the file."""


def _weave(base: bytes, recipes: tuple[Recipe, ...]) -> Woven:
    lines = marks.lines_of(base)
    recipe, places = _fitting(base, recipes)
    before = recipe.shape.before
    code = {
        places.after_imports: IMPORTS,
        places.before_loop: BEGIN,
        places.before_layer: tuple(line.format(index=places.index, before=before) for line in CAPTURE),
        places.before_return: FINISH,
    }
    newline = _newline(lines)
    for place in sorted(code, key=lambda place: place.line, reverse=True):
        lines[place.line : place.line] = marks.block(code[place], _indent(lines, place), newline)
    content = b"".join(lines)
    _prove(content, base)
    return Woven(content, recipe)


def _prove(content: bytes, base: bytes) -> None:
    try:
        compile(content, "the model file", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise _MisfitError(f"does not compile with the patch in it: {error}") from None
    if marks.take_apart(content).base != base:
        raise _MisfitError("has lines of its own that can't be told from the patch's")


def _fitting(base: bytes, recipes: tuple[Recipe, ...]) -> tuple[Recipe, Places]:
    try:
        tree = ast.parse(base)
    except (SyntaxError, ValueError) as error:
        python = "Python {}.{}".format(*sys.version_info)
        raise _MisfitError(f"cannot be read as {python}: {error}") from None
    tried = [_try(tree, recipe) for recipe in recipes]
    for fitting in tried:
        if not isinstance(fitting, AnchorMissingError):
            return fitting
    misses = [miss for miss in tried if isinstance(miss, AnchorMissingError)]
    if not misses:
        raise _MisfitError("has a layer loop of its own, and no release was known in which it does")
    nearest = max(misses, key=lambda miss: miss.order)
    raise _MisfitError(f"lacks an anchor of the patch: {nearest.anchor}")


def _try(tree: ast.Module, recipe: Recipe) -> Union[tuple[Recipe, Places], AnchorMissingError]:
    try:
        return recipe, find(tree, recipe)
    except AnchorMissingError as error:
        return error


def _newline(lines: list[bytes]) -> bytes:
    first = lines[0]
    return first[len(first.rstrip(b"\r\n")) :] or b"\n"


def _indent(lines: list[bytes], place: Place) -> bytes:
    indent = lines[place.line][: place.indent]
    if indent.strip():
        raise _MisfitError(f"holds more than one statement in line {place.line + 1}")
    return indent
