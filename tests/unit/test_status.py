"""What `hsconsole status` says of GPUs that SGLang was told not to use."""

from __future__ import annotations

import dataclasses

import pytest

from console.cli import status
from console.config.profile import Container, Profile, Server
from console.operations.overview import Overview
from remote.wire.telemetry import Gpu, GpuSnapshot
from tests.unit.security.test_shown import filled

SEEN = {"": GpuSnapshot(0.0, problem="no NVIDIA library"), "gpu 7": GpuSnapshot(0.0, (filled(Gpu, "H200", 1.0),))}


@pytest.mark.parametrize("shown", SEEN)
def test_real_gpus_are_shown_also_where_none_is_needed(shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(model_path="/m", flags=("--device", "cpu"))
    profile = Profile(container=Container(host="ct", python="python3"), server=server)
    found: Overview = dataclasses.replace(filled(Overview, "words", 1.0), gpus=SEEN[shown])
    status._print(profile, found)
    said = capsys.readouterr().out
    assert shown in said
    assert ("none needed" in said) == (not shown)
