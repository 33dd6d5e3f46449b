"""The moment at which a process begins to build its model: arguments and ranks are known, weights not yet loaded."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import log, release
from .problem import problem_of


def when_model_is_built(act: Callable[[Any], None]) -> None:
    """Call `act` once, with the device, when the first parameter of the model is made in this process.

    Never in processes without a model; in none on torch before 2.0.
    """
    module = torch.nn.modules.module
    register = getattr(module, "register_module_parameter_registration_hook", None)
    if register is None:
        return
    done = False

    def seen(_: Any, __: str, parameter: Any) -> None:
        nonlocal done
        if done or parameter is None or not release.ranks_are_known():
            return
        done = True
        try:
            act(parameter.device)
        except Exception as error:
            problem = problem_of(error)
            log.once(f"the start could not be prepared: {problem.cause}", problem.detail)

    register(seen)
