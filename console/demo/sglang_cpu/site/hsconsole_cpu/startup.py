"""Runs when the interpreter starts (hsconsole_cpu.pth) and waits for torchvision.

A .pth file and not sitecustomize: Debian has a sitecustomize of its own, which comes first and would hide ours.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

EXTENSION = "torchvision.extension"


def install() -> None:
    sys.meta_path.insert(0, _ExtensionFinder())


def _define_missing_operators() -> None:
    """Declare the operators whose shapes torchvision describes on import even when it could not load their code.

    PyPI's torchvision is linked against CUDA, so on a CPU build of torch its compiled half stays out.
    """
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)  # the declarations live as long as this object


_kept: list[object] = []


class _ExtensionFinder:
    """Lets torchvision.extension load as it would, then completes it. Steps aside after that one module."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != EXTENSION:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_complete(module: ModuleType) -> None:
                load(module)
                _define_missing_operators()

            spec.loader.exec_module = load_and_complete  # type: ignore[method-assign]
        return spec
