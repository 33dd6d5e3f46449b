"""The wheel holds all that hsconsole needs at run time, and works outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import console

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (built,) = folder.glob("hsconsole-*.whl")
    return built


def test_every_file_of_both_packages_is_in_it(wheel: Path) -> None:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "console", "remote"], check=True, capture_output=True, text=True
    )
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert set(listed.stdout.split("\n")) - {""} - inside == set()
    assert not [name for name in inside if name.startswith(("tests/", "screenshots/"))]


def test_it_runs_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    """Its own files from the wheel, its dependencies from this environment."""
    venv.create(tmp_path / "env", symlinks=True)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    dependencies = Path(pytest.__file__).parents[1]
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    program = (
        "import console, console.cli.main as m, console.ssh.pack as p, sys; "
        "print(console.__file__); print(len(p.pack().data) > 50_000); sys.exit(m.run(['--version']))"
    )
    ran = subprocess.run(
        [str(tmp_path / "env" / "bin" / "python"), "-c", program],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        check=True,
        capture_output=True,
        text=True,
    )
    where, packed, version = ran.stdout.splitlines()
    assert where.startswith(str(site))
    assert packed == "True"
    assert console.__version__ in version
