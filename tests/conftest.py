"""What all tests share: the long matrix runs only where it is asked for."""

from __future__ import annotations

import pytest

LONG = "matrix"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{LONG}: takes minutes; runs with -m {LONG} alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker(LONG)]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in set(long)]
