"""An agent's error comes back as its own class, with its own words and exit status."""

from __future__ import annotations

import pytest

from console.errors import ChangedSincePlan, ErrorReport, OperatorError, PatchError, RemoteFault, WireError, from_report


@pytest.mark.parametrize(
    ("id_", "kind", "status"),
    [
        ("patch", PatchError, 6),
        ("patch.no_sglang", PatchError, 6),
        ("refused.changed", ChangedSincePlan, 5),
        ("link.wire", WireError, 4),
        ("agent.fault", RemoteFault, 1),
        ("patchwork", RemoteFault, 1),
    ],
)
def test_class_and_words(id_: str, kind: type[OperatorError], status: int) -> None:
    error = from_report(ErrorReport(id_, "Title", "what", "remedy"))
    assert type(error) is kind
    assert error.exit_code == status
    assert error.report() == ErrorReport(id_, "Title", "what", "remedy")
