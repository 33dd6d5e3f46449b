"""Where the lines go: places found in the syntax tree of a model file."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Optional, TypeVar, Union

from remote.patch.recipes import Recipe

ARGUMENTS = ("self", "input_ids", "positions", "forward_batch")  # that the hooks pass on
STATES = "hidden_states"

T = TypeVar("T")


class AnchorMissingError(Exception):
    """One anchor of a recipe is not in the file. order: how many anchors were found before it."""

    def __init__(self, order: int, anchor: str) -> None:
        super().__init__(anchor)
        self.order = order
        self.anchor = anchor


@dataclasses.dataclass(frozen=True)
class Place:
    """Insert before this line (0-based), as deep as column `indent` of it; indent 0 for the module's own level."""

    line: int
    indent: int


@dataclasses.dataclass(frozen=True)
class Places:
    """index: the name of the loop's variable."""

    after_imports: Place
    before_loop: Place
    before_layer: Place
    before_return: Place
    index: str


def find(tree: ast.Module, recipe: Recipe) -> Places:
    """Every place of `recipe` in `tree`. Raises AnchorMissingError for the first one that isn't there."""
    model_class, shape = recipe.file.model_class, recipe.shape
    imports = _need(0, "imports at the top", _last_import(tree))
    model = _need(1, f"class {model_class}", _named(tree.body, ast.ClassDef, model_class))
    forward = _need(2, f"{model_class}.forward", _named(model.body, ast.FunctionDef, "forward"))
    names = [argument.arg for argument in forward.args.args]
    _need(3, f"forward({', '.join(ARGUMENTS)}, …)", all(name in names for name in ARGUMENTS) or None)
    loops = [(statement, *found) for statement in forward.body for found in _layer_loops(statement)]
    outer, index, body = _need(4, "one loop over self.layers", loops[0] if len(loops) == 1 else None)
    wanted = f"{', '.join(shape.layer_results)} = layer(…) in that loop"
    _need(5, wanted, True if _results(body, index) == shape.layer_results else None)
    _need(6, f"the name {shape.needs}", True if shape.needs in _bound(tree, forward) else None)
    _need(7, "self.norm after that loop", _after(forward, outer, "norm"))
    final = _need(8, f"return {STATES} at the end of forward", _final_return(forward))
    return Places(
        after_imports=Place(imports.end_lineno or imports.lineno, 0),
        before_loop=_place(outer),
        before_layer=_place(body[0]),
        before_return=_place(final),
        index=index,
    )


def _need(order: int, anchor: str, found: Optional[T]) -> T:
    if found is None:
        raise AnchorMissingError(order, anchor)
    return found


def _place(statement: ast.stmt) -> Place:
    return Place(statement.lineno - 1, statement.col_offset)


def _last_import(tree: ast.Module) -> Optional[ast.stmt]:
    """The last of the imports that open the module; what follows it starts on a line of its own."""
    last: Optional[ast.stmt] = None
    for number, statement in enumerate(tree.body):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            last = statement
        elif not (number == 0 and isinstance(statement, ast.Expr)):
            return last if last is not None and statement.lineno > (last.end_lineno or 0) else None
    return last


Named = TypeVar("Named", bound=Union[ast.ClassDef, ast.FunctionDef])


def _named(body: Sequence[ast.stmt], kind: type[Named], name: str) -> Optional[Named]:
    found = [statement for statement in body if isinstance(statement, kind) and statement.name == name]
    return found[0] if len(found) == 1 else None


def defines_forward(source: bytes, model_class: str, base: str) -> bool:
    """Whether `model_class` in `source` runs its layers itself; not when it leaves that to its base class."""
    try:
        found = _named(ast.parse(source).body, ast.ClassDef, model_class)
    except (SyntaxError, ValueError):
        return True
    if found is None or [ast.unparse(one) for one in found.bases] != [base]:
        return True
    return _named(found.body, ast.FunctionDef, "forward") is not None


def _layer_loops(statement: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The variable of each `for` in a statement or the branches of an `if`, and the block below any `with` in it,
    in which layer `variable` is called."""
    if isinstance(statement, ast.If):
        for inner in (*statement.body, *statement.orelse):
            yield from _layer_loops(inner)
    if not (isinstance(statement, ast.For) and isinstance(statement.target, ast.Name)):
        return
    index = statement.target.id
    blocks = [statement.body]
    while blocks:
        block = blocks.pop()
        blocks.extend(inner.body for inner in block if isinstance(inner, ast.With))
        if any(_takes_layer(inner, index) for inner in block):
            yield index, block


def _takes_layer(statement: ast.stmt, index: str) -> bool:
    """`layer = self.layers[index]`, or a call of `self.layers[index]` whose results are assigned."""
    if not isinstance(statement, ast.Assign):
        return False
    layer = f"self.layers[{index}]"
    return ast.unparse(statement) == f"layer = {layer}" or _called(statement) == layer


def _called(statement: ast.Assign) -> str:
    return ast.unparse(statement.value.func) if isinstance(statement.value, ast.Call) else ""


def _results(block: Sequence[ast.stmt], index: str) -> tuple[str, ...]:
    """The names that `… = layer(…)` assigns in this block."""
    for statement in block:
        if isinstance(statement, ast.Assign) and _called(statement) in ("layer", f"self.layers[{index}]"):
            target = statement.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            return tuple(ast.unparse(name) for name in names)
    return ()


def _bound(tree: ast.Module, function: ast.FunctionDef) -> set[str]:
    """Names that the module's imports or the function's assignments bind."""
    imported = {
        alias.asname or alias.name
        for statement in tree.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        for alias in statement.names
    }
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return imported | stored


def _after(function: ast.FunctionDef, loop: ast.stmt, attribute: str) -> Optional[ast.Attribute]:
    """`self.<attribute>` in a statement behind the loop."""
    later = function.body[function.body.index(loop) + 1 :]
    for node in (node for statement in later for node in ast.walk(statement)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == f"self.{attribute}":
            return node
    return None


def _final_return(function: ast.FunctionDef) -> Optional[ast.stmt]:
    """The first of the returns that end the function, each of the hidden states or of a tuple that starts with them."""
    first: Optional[ast.stmt] = None
    for statement in reversed(function.body):
        returned = _returned(statement)
        if returned is None:
            break
        if not _starts_with_states(returned.value):
            return None
        first = statement
    return first


def _returned(statement: ast.stmt) -> Optional[ast.Return]:
    """`return …`, or the one in `if …: return …`."""
    if isinstance(statement, ast.If) and not statement.orelse and len(statement.body) == 1:
        statement = statement.body[0]
    return statement if isinstance(statement, ast.Return) else None


def _starts_with_states(value: Optional[ast.expr]) -> bool:
    if isinstance(value, ast.IfExp):
        return _starts_with_states(value.body) and _starts_with_states(value.orelse)
    first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    return isinstance(first, ast.Name) and first.id == STATES
