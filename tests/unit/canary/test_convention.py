"""Which layers a release captures for a draft's ids, and the alarm when the dumps hold others."""

from __future__ import annotations

import pytest

from console.config.profile import Container, Dump, Profile, Server
from remote.canary import convention
from remote.wire.plan import Verdict

CAPTURES = [
    ("0.4.6.post5", (2, 30, 58), (3, 31, 59)),
    ("0.5.9", (2, 30, 58), (3, 31, 59)),
    ("0.5.12", (2, 30, 58), (3, 31, 59)),
    ("0.5.12.post1", (2, 30, 58), (3, 31, 59)),
    ("0.5.13", (2, 30, 58), (2, 30, 58)),
    ("0.5.14", (2, 30, 58), (2, 30, 58)),
    ("0.5.14", (3, 31, 59), (3, 31, 59)),
    ("0.5.23", (1, 29, 57), (2, 30, 58)),  # ids that begin with 1 keep the older meaning
    ("0.5.23", (), ()),
    ("0.6.0rc1", (2, 30, 58), (2, 30, 58)),
    ("0.5.10.dev3+gabc", (2, 30, 58), (3, 31, 59)),
    ("unknown", (2, 30, 58), None),
    ("", (2,), None),
]


@pytest.mark.parametrize(("version", "ids", "captured"), CAPTURES)
def test_what_a_release_captures(version: str, ids: tuple[int, ...], captured: tuple[int, ...] | None) -> None:
    assert convention.captures(version, ids) == captured


def test_the_alarm() -> None:  # D08
    check = convention.check("0.5.14", (2, 30, 58), (3, 31, 59))
    assert check is not None
    assert check.verdict is Verdict.BAD
    assert check.found == (
        "SGLang 0.5.14 with eagle ids [2, 30, 58] captures before [2, 30, 58], "
        "the dumps are captured before [3, 31, 59]"
    )
    assert "dump.layers = [3, 31, 59]" in check.remedy
    assert "ids [3, 31, 59]" in check.remedy


@pytest.mark.parametrize(
    ("version", "ids", "verdict"),
    [
        ("0.5.12", (2, 30, 58), Verdict.OK),
        ("0.5.14", (3, 31, 59), Verdict.OK),
        ("0.5.12", (3, 31, 59), Verdict.BAD),
        (None, (2, 30, 58), Verdict.UNKNOWN),
        ("main", (2, 30, 58), Verdict.UNKNOWN),
    ],
)
def test_what_is_said(version: str | None, ids: tuple[int, ...], verdict: Verdict) -> None:
    check = convention.check(version, ids, (3, 31, 59))
    assert check is not None
    assert check.verdict is verdict


def test_a_profile_that_names_layers_means_what_it_says() -> None:
    assert convention.check("0.5.14", None, (3, 31, 59)) is None


def test_the_profile_tells_the_drafts_ids() -> None:
    container, server = Container(host="h", python="python3"), Server(model_path="/m")
    named = Profile(container=container, server=server, dump=Dump(eagle_layer_ids=(2, 30, 58)))
    assert (named.target.layers, named.target.eagle_layer_ids) == ((3, 31, 59), (2, 30, 58))
    assert Profile(container=container, server=server, dump=Dump(layers=(3,))).target.eagle_layer_ids is None
