"""The two ways to restart a server, where the profile says otherwise than what runs."""

from __future__ import annotations

from remote.wire.plan import Plan

AS_IT_RUNS, BY_PROFILE = "server.restart", "server.restart.profile"
WORDS = {AS_IT_RUNS: "As it runs", BY_PROFILE: "By profile"}


def differences(plan: Plan) -> tuple[str, ...]:
    """What the profile says otherwise than what runs."""
    return tuple(map(str, plan.basis.get("differs", [])))


def other_way(plan: Plan) -> str:
    """The other action, where it would start another command than `plan` does; else empty."""
    if plan.action not in WORDS or not differences(plan):
        return ""
    return BY_PROFILE if plan.action == AS_IT_RUNS else AS_IT_RUNS
