"""The lines woven into real model files: where they go, what survives, and what they do when they run."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable

import pytest

from remote.patch import marks, seam
from remote.patch.recipes import DEEPSEEK, LLAMA, QWEN2, QWEN2_MOE, QWEN3, ModelFile, known_releases
from tests.unit.patch.conftest import RELEASES, model_file


@pytest.mark.parametrize(("release", "family"), RELEASES.items())
def test_each_release_gets_its_family_and_nothing_but_new_lines(release: str, family: str) -> None:
    raw = model_file(release)
    woven = seam.weave(raw, DEEPSEEK)
    assert woven.recipe.name == family
    assert woven.recipe.seen_in(release)
    changes = [
        line
        for line in difflib.unified_diff(raw.decode().splitlines(), woven.content.decode().splitlines(), n=0)
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert all(line.startswith("+") for line in changes)
    assert len(changes) == 17
    apart = marks.take_apart(woven.content)
    assert (apart.base, apart.version, len(apart.lines)) == (raw, "3", 17)
    assert "hsconsole patch revert" in apart.lines[0].text
    shown = woven.content.decode().splitlines()
    assert all(shown[line.number - 1] == line.text for line in apart.lines)


def _forward(release: str, file: ModelFile) -> str:
    tree = ast.parse(seam.weave(model_file(release, file), file).content)
    (model,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == file.model_class)
    (forward,) = (n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward")
    return ast.unparse(forward)


OTHERS = [
    *((file, release) for file in (LLAMA, QWEN2, QWEN2_MOE) for release in ("0.4.6", "0.5.9", "0.5.20", "0.5.23")),
    *((QWEN3, release) for release in ("0.5.21", "0.5.23")),
]


@pytest.mark.parametrize(("file", "release"), [*((DEEPSEEK, release) for release in RELEASES), *OTHERS])
def test_the_hooks_stand_around_the_layer_loop(file: ModelFile, release: str) -> None:
    text = _forward(release, file)
    order = ["_HS_DUMP.begin(", "for i in range(", "_hs_dump.capture(i, ", "self.layers[i]", "self.norm", ".finish("]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    # the last thing but for the returns, so after a gathering of context-parallel states
    tail = text[text.index("if _hs_dump is not None:\n        _hs_dump.finish(hidden_states)") :]
    assert not re.search(r"^    hidden_states\b.* = ", tail, re.MULTILINE)
    # in no branch: behind the loop the name is known, whichever way was taken around it
    assert re.search(r"^    _hs_dump = .*begin\(", text, re.MULTILINE)


def test_the_hooks_come_before_sglangs_own_capture_and_after_what_gathers_the_states() -> None:
    text = _forward("0.5.9", DEEPSEEK)
    assert text.index("_hs_dump.capture(i, ") < text.index("if i in self.layers_to_capture")
    assert text.index("cp_all_gather_rerange_output") < text.index("_hs_dump.finish(")


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "CR": lambda raw: raw.replace(b"\n", b"\r"),
    "BOM": lambda raw: b"\xef\xbb\xbf" + raw,
    "no final newline": lambda raw: raw.rstrip(b"\n"),
    "BOM, CRLF, no final newline": lambda raw: b"\xef\xbb\xbf" + raw.rstrip(b"\n").replace(b"\n", b"\r\n"),
    "Latin-1": lambda raw: b"# -*- coding: latin-1 -*-\n# \xe9\n" + raw.decode().encode("ascii", "replace"),
    "form feeds": lambda raw: raw.replace(b"\nclass ", b"\n\x0cclass "),
    "tabs": lambda raw: re.sub(rb"(?m)^( {4})+", lambda m: b"\t" * (len(m.group()) // 4), raw),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("release", ["0.4.6", "0.5.23"])
def test_x01_the_style_of_the_file_survives(release: str, form: str) -> None:
    raw = FORMS[form](model_file(release))
    content = seam.weave(raw, DEEPSEEK).content
    assert marks.take_apart(content).base == raw
    assert content.startswith(raw[:200])
    assert content.endswith(raw[-200:])
    newline = b"\r\n" if b"\r\n" in raw else b"\r" if form == "CR" else b"\n"
    for line in marks.lines_of(content)[:-1]:
        assert line.endswith(newline)
        assert line.rstrip(b"\r\n") + newline == line


CHANGES = [
    ("class DeepseekV2Model(", "class DeepseekModel(", "class DeepseekV2Model"),
    ("def forward(", "def forwards(", "DeepseekV2Model.forward"),
    ("forward_batch: ForwardBatch,", "batch: ForwardBatch,", "forward(self, input_ids, positions, forward_batch, …)"),
    ("layer = self.layers[i]", "layer = self.stages[i]", "one loop over self.layers"),
    ("(hidden_states, topk_indices) = layer(", "(hidden_states, more, topk) = layer(", "layer(…) in that loop"),
    ("import batch as residual_batch", "import batch as batches", "the name residual_batch"),
    ("hidden_states, forward_batch, self.norm", "hidden_states, forward_batch, self.ln", "self.norm after that loop"),
    ("return hidden_states, aux_hidden_states.finalize()", "return aux_hidden_states", "return hidden_states"),
    ("class DeepseekV2Model(", "class DeepseekV2Model((", "cannot be read as Python"),
]


@pytest.mark.parametrize(("old", "new", "anchor"), CHANGES, ids=[change[0].strip() for change in CHANGES])
def test_x05_an_unknown_shape_is_refused_and_its_anchor_named(old: str, new: str, anchor: str) -> None:
    text = model_file("0.5.23").decode()
    start = text.index("class DeepseekV2Model(") if old in text[text.index("class DeepseekV2Model(") :] else 0
    changed = text[:start] + text[start:].replace(old, new)
    with pytest.raises(seam.UnknownReleaseError) as refusal:
        seam.weave(changed.encode(), DEEPSEEK)
    assert anchor in refusal.value.what
    assert "0.4.6 to 0.5.9, 0.5.10 to 0.5.20, 0.5.21 to 0.5.23" in refusal.value.remedy
    assert refusal.value.exit_code == 5


@pytest.mark.parametrize(("file", "release"), OTHERS)
def test_x05_an_unknown_shape_of_any_file_is_refused(file: ModelFile, release: str) -> None:
    changed = model_file(release, file).replace(b"self.layers[i]", b"self.stages[i]")
    with pytest.raises(seam.UnknownReleaseError, match="lacks an anchor of the patch: one loop over") as refusal:
        seam.weave(changed, file)
    assert refusal.value.what.startswith(file.path.rpartition("/")[2])
    assert known_releases(file) in refusal.value.remedy


def test_a_loop_on_one_line_is_refused() -> None:
    text = model_file("0.4.6").decode()
    old = "            expert_distribution_recorder.set_current_layer(i)\n            layer = self.layers[i]\n"
    start = text.index("        for i in range(len(self.layers)):\n" + old)
    changed = text[:start] + "        residual = None; " + text[start:].lstrip()
    with pytest.raises(seam.UnknownReleaseError):
        seam.weave(changed.encode(), DEEPSEEK)


BROKEN = {
    "no end": (b"# >>> hsconsole hidden-state dump 3 >>>\nx = 1\n", "line 1"),
    "no beginning": (b"x = 1\n# <<< hsconsole hidden-state dump 3 <<<\n", "line 2"),
    "opened twice": (b"# >>> hsconsole hidden-state dump 3 >>>\n" * 2, "line 2"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_marks_that_do_not_pair_are_named(case: str) -> None:
    raw, where = BROKEN[case]
    with pytest.raises(marks.BrokenMarksError, match=where):
        marks.take_apart(raw)
    assert marks.has_marks(raw)
