"""The laptop's line to the container, as nftables at the laptop spoil it; for who sits at the laptop."""

from __future__ import annotations

import subprocess

from tests.bed.machines import CONTAINER

TABLE = """\
table inet spoiled {{
  chain arriving {{ type filter hook input priority 0; {arriving} }}
  chain leaving {{ type filter hook output priority 0; {leaving} }}
}}
"""


def drop() -> None:
    """Nothing passes, and nobody is told."""
    _spoil(arriving=f"ip saddr {CONTAINER} drop;", leaving=f"ip daddr {CONTAINER} drop;")


def deafen() -> None:
    """What is said to the container arrives there, and nothing comes back."""
    _spoil(arriving=f"ip saddr {CONTAINER} drop;")


def reset() -> None:
    """Whatever leaves is answered with a reset."""
    _spoil(leaving=f"ip daddr {CONTAINER} tcp dport 22 reject with tcp reset;")


def lose(percent: int) -> None:
    _spoil(arriving=f"ip saddr {CONTAINER} numgen random mod 100 < {percent} drop;")


def mend() -> None:
    subprocess.run(["nft", "delete", "table", "inet", "spoiled"], check=True, stdin=subprocess.DEVNULL)


def _spoil(arriving: str = "", leaving: str = "") -> None:
    rules = TABLE.format(arriving=arriving, leaving=leaving)
    subprocess.run(["nft", "-f", "-"], check=True, input=rules.encode())
