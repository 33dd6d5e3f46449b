"""What an installed SGLang release knows, read from its source: importing it takes ten seconds."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

MARKS = ("A", "Annotated")  # 0.5.14 and later declare flags as `name: A[type, "help"]`, others call add_argument


def known_flags(package: Path) -> Optional[frozenset[str]]:
    """Every `--flag` of the SGLang in `package` (the folder that holds `srt`); None where its source can't be read."""
    sources = [package / "srt" / "server_args.py", *sorted((package / "srt" / "arg_groups" / "fields").glob("*.py"))]
    flags: set[str] = set()
    try:
        for source in sources:
            flags.update(_flags(ast.parse(source.read_bytes())))
    except (OSError, SyntaxError, ValueError):  # SyntaxError: written for a newer Python than this one
        return None
    return frozenset(flags) or None


def health_can_be_quiet(package: Path) -> bool:
    """Can GET /health of this release be asked without it running a request of one token (and so dumping it)?"""
    try:
        source = (package / "srt" / "entrypoints" / "http_server.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    generates = '@app.get("/health")\n@app.get("/health_generate")' in source
    return not generates or "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION" in source


def tells_prompt_lengths(package: Path) -> bool:
    """Does a pass carry the whole lengths of its prompts, so that a chunk can be told from the end of one?"""
    try:
        source = (package / "srt" / "model_executor" / "forward_batch_info.py").read_bytes()
    except OSError:
        return False
    return b"orig_seq_lens" in source


def expand(flag: str, known: Iterable[str]) -> Optional[str]:
    """The known flag that argparse takes `flag` for: itself, or the only one it is a beginning of."""
    names = list(known)
    if flag in names:
        return flag
    begun = [name for name in names if name.startswith(flag)]
    return begun[0] if len(begun) == 1 else None


def close_matches(flag: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(flag, list(known), n=3, cutoff=0.6)


def _flags(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            yield from _options(node.args)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield from _declared(node.target.id, node.annotation)


def _options(values: Iterable[ast.expr]) -> Iterator[str]:
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.startswith("--"):
            yield value.value


def _declared(field: str, annotation: ast.expr) -> Iterator[str]:
    if not (isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name)):
        return
    if annotation.value.id not in MARKS or not isinstance(annotation.slice, ast.Tuple):
        return
    for mark in annotation.slice.elts[1:]:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "Arg":
            yield from _described(field, {keyword.arg: keyword.value for keyword in mark.keywords})
            return
        if isinstance(mark, (ast.Constant, ast.JoinedStr, ast.BinOp)):  # the help alone
            yield _spelled(field)
            return


def _described(field: str, described: dict[Optional[str], ast.expr]) -> Iterator[str]:
    no_cli = described.get("no_cli")
    if isinstance(no_cli, ast.Constant) and no_cli.value:
        return
    name = described.get("cli_name")
    yield from _options([name]) if isinstance(name, ast.Constant) and name.value else [_spelled(field)]
    aliases = described.get("aliases")
    if isinstance(aliases, (ast.List, ast.Tuple)):
        yield from _options(aliases.elts)


def _spelled(field: str) -> str:
    return "--" + field.replace("_", "-")
