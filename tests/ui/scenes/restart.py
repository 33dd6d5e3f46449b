"""A restart where the profile says otherwise by now."""

from __future__ import annotations

import dataclasses

from remote.wire.plan import Outcome, Plan, Step
from tests.ui.fake_link import FakeLink
from tests.ui.scenes.plays import answering
from tests.ui.scenes.server import STOP, STOPPED_WELL

DIFFERS = ("layers (2, 30, 58) instead of (3, 31, 59)", "without --api-key •••", "with NCCL_DEBUG=INFO")
COMMAND = (
    "env SGLANG_HS_DUMP_DIR=/dev/shm/sglang_hs SGLANG_HS_DUMP_LAYERS={} /root/ml-env/bin/python3"
    " -m sglang.launch_server --model-path /models/Kimi-K2.5 --tp-size 8 --port 8000 --disable-radix-cache{}"
)
SAME = Plan(
    "server.restart",
    "Restart SGLang on port 8000, as it runs",
    needed=True,
    steps=(
        *STOP.steps,
        Step("Look at everything a start needs, the port and the GPUs too"),
        Step("Start the server, detached", COMMAND.format("3,31,59", " --api-key •••")),
    ),
    losses=STOP.losses,
    basis={"stop": STOP.basis},
)
AS_IT_RUNS = dataclasses.replace(
    SAME,
    notes=(
        f"The profile says otherwise than what runs: {'; '.join(DIFFERS)}",
        "To start it as the profile says: hsconsole server restart --by-profile",
    ),
    basis={"stop": STOP.basis, "differs": list(DIFFERS)},
)
BY_PROFILE = dataclasses.replace(
    AS_IT_RUNS,
    action="server.restart.profile",
    title="Restart SGLang on port 8000, as the profile says",
    steps=(*SAME.steps[:-1], Step("Start the server, detached", "NCCL_DEBUG=INFO " + COMMAND.format("2,30,58", ""))),
    notes=(AS_IT_RUNS.notes[0], "To start it as it runs: hsconsole server restart --as-it-runs"),
)


def restarting(link: FakeLink) -> None:
    answering(link)
    for plan in (AS_IT_RUNS, BY_PROFILE):
        link.answers[f"plan {plan.action}"] = plan
        link.answers[f"run {plan.action}"] = Outcome(plan.action, True, "Started, loading.", STOPPED_WELL.checks)
