"""A recovery whose ordinary plan is not enough, and the last resorts after it."""

from __future__ import annotations

from remote.wire.plan import Check, Outcome, Plan, Step, StepResult
from tests.ui.scenes.basics import BAD, OK

PORT_FREE = "Look again: port 8000 free, nothing left of a server, GPU memory back"
RECOVER = Plan(
    "server.recover",
    "Free port 8000 and clear what a dead server left",
    needed=True,
    steps=(
        Step(
            "pid 48301 of root, 2:00:14 old (since 2026-01-31 07:04:46 UTC), state D: sglang::scheduler_TP0; holds "
            "0.0.0.0:8000 – ours: left over from the server that hsconsole started (same session)"
        ),
        Step("Ask them to end", "kill -TERM 48301"),
        Step("Kill what is left", "kill -KILL 48301"),
        Step(PORT_FREE),
    ),
    losses=("Requests under way and dumps not finished.",),
)
END_PYTHONS = Plan(
    "server.recover",
    "Free port 8000 and clear what a dead server left",
    needed=True,
    steps=(
        *RECOVER.steps[:1],
        Step(
            "pid 77 of ann, 3 d 4 h old (since 2026-01-28 04:12:09 UTC), state S: python3 -m ipykernel_launcher – "
            "NOT ours (a Python process), named by you"
        ),
        Step("Ask them to end", "kill -TERM 48301 77"),
        Step("Kill what is left", "kill -KILL 48301 77"),
        Step(PORT_FREE),
    ),
    losses=("What pid 77 is doing: it is not ours.",),
    word="kill every python",
)
RESTART = Plan(
    "server.recover",
    "Free port 8000 and clear what a dead server left",
    needed=True,
    steps=(*RECOVER.steps[:3], Step("Restart the container", "pct stop 129; pct start 129"), Step(PORT_FREE)),
    losses=("Everything that runs in container 129, and all of its /dev/shm.",),
    notes=("pid 48301 waits in the kernel: no signal ends that, and `pct stop 129` would hang on it.",),
    word="restart 129",
)
PLANS = {"": RECOVER, "pythons": END_PYTHONS, "restart": RESTART}
NOT_ENOUGH = Outcome(
    "server.recover",
    False,
    "Not recovered: see what is left, and what ends it.",
    (
        Check("processes", BAD, "left: 48301 sglang::scheduler_TP0", "Waiting in the kernel: pid 48301 (nfs_wait)."),
        Check("port", BAD, "Address already in use: held by pid 48301 (sglang::scheduler_TP0)"),
        Check("GPU memory", OK, "back at its baseline of 0.6 GiB"),
    ),
)
RECOVERED = Outcome("server.recover", True, "Recovered: port 8000 is free.", (Check("port", OK, "it can be bound"),))
RECOVER_STEPS = (
    StepResult("Ask them to end", True, "kill -TERM 48301", 0.1),
    StepResult("Kill what is left", True, "kill -KILL 48301", 0.0),
    StepResult("Wait for them", False, "1 left: 48301 sglang::scheduler_TP0", 5.0),
)
