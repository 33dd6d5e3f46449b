"""The patch itself: its few lines, woven into a model file at the places of its recipe."""

from __future__ import annotations

import ast
import dataclasses
import functools
import sys
from typing import Union

from remote.patch import marks
from remote.patch.anchors import AnchorMissingError, Place, Places, find
from remote.patch.recipes import RECIPES, Recipe, known_releases
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
def weave(base: bytes, recipes: tuple[Recipe, ...] = RECIPES) -> Woven:
    """Put the patch into `base`, a model file without it.

    The result compiles, and taken apart it is `base` again. Raises UnknownReleaseError naming the anchor that failed.
    """
    lines = marks.lines_of(base)
    recipe, places = _fitting(base, recipes)
    code = {
        places.after_imports: IMPORTS,
        places.before_loop: BEGIN,
        places.before_layer: tuple(line.format(index=places.index, before=recipe.before) for line in CAPTURE),
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
        raise UnknownReleaseError(f"the model file does not compile with the patch in it: {error}", _remedy()) from None
    if marks.take_apart(content).base != base:
        raise UnknownReleaseError("the patch's lines could not be told from the file's own", _remedy())


def _fitting(base: bytes, recipes: tuple[Recipe, ...]) -> tuple[Recipe, Places]:
    try:
        tree = ast.parse(base)
    except (SyntaxError, ValueError) as error:
        python = "Python {}.{}".format(*sys.version_info)
        raise UnknownReleaseError(f"the model file cannot be read as {python}: {error}", _remedy()) from None
    tried = [_try(tree, recipe) for recipe in recipes]
    for fitting in tried:
        if not isinstance(fitting, AnchorMissingError):
            return fitting
    nearest = max((miss for miss in tried if isinstance(miss, AnchorMissingError)), key=lambda miss: miss.order)
    raise UnknownReleaseError(f"the model file lacks an anchor of the patch: {nearest.anchor}", _remedy())


def _try(tree: ast.Module, recipe: Recipe) -> Union[tuple[Recipe, Places], AnchorMissingError]:
    try:
        return recipe, find(tree, recipe)
    except AnchorMissingError as error:
        return error


def _remedy() -> str:
    return f"The file was not changed. Releases this hsconsole knows: {known_releases()}."


def _newline(lines: list[bytes]) -> bytes:
    first = lines[0]
    return first[len(first.rstrip(b"\r\n")) :] or b"\n"


def _indent(lines: list[bytes], place: Place) -> bytes:
    indent = lines[place.line][: place.indent]
    if indent.strip():
        raise UnknownReleaseError(f"line {place.line + 1} of the model file holds more than one statement", _remedy())
    return indent
