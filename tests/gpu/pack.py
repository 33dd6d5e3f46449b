"""`python3 -m tests.gpu.pack`: the bundle that `tests.gpu` needs, .gpu/site312.tar.xz, about 50 MB.

Wheels of SGLang 0.5.14 and of what it imports, for Python 3.12 on x86-64 where torch 2.11, triton, transformers' own
needs and nvcc are there already. Of SGLang's kernels only the Hopper build of the common ones: the rest is 1.7 GB.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PINNED = (
    "sglang==0.5.14 transformers==5.8.1 tokenizers==0.22.2 flashinfer_python==0.6.12 apache-tvm-ffi==0.1.9 "
    "openai==2.6.1 pydantic==2.14.*"
)
ANY = (
    "annotated-types asttokens cffi compressed-tensors dill distro executing fastapi gguf interegular ipython "
    "ipython-pygments-lexers jedi jiter jsonschema jsonschema-specifications loguru matplotlib-inline msgspec "
    "opentelemetry-api orjson parso partial-json-parser pexpect prompt-toolkit ptyprocess pure-eval pybase64 "
    "pycparser python-multipart pyzmq referencing rpds-py setproctitle sniffio soundfile stack-data starlette "
    "torch_memory_saver traitlets typing-extensions typing-inspection uvicorn wcwidth"
)
KERNELS = "sglang-kernel==0.4.4"
NOT_NEEDED = re.compile(r"sgl_kernel/(flash_ops|sm100/)|jedi/third_party/|bin/|.*__pycache__")
PLATFORMS = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 28, 34)] + ["--platform=manylinux2014_x86_64"]


def download(folder: Path, packages: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version=3.12", *PLATFORMS, "--dest", str(folder), *packages]
    subprocess.run(command, check=True)


def unpack(wheel: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site, [name for name in archive.namelist() if not NOT_NEEDED.match(name)])


def core_of_pydantic(wheels: Path) -> str:
    """The one release of pydantic-core that this pydantic works with."""
    (wheel,) = wheels.glob("pydantic-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        needs = re.search(r"^Requires-Dist: pydantic-core *\(?(==[\w.]+)", archive.read(name).decode(), re.MULTILINE)
    assert needs is not None
    return f"pydantic-core{needs[1]}"


def main() -> None:
    bundle = Path(__file__).parents[2] / ".gpu" / "site312.tar.xz"
    bundle.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        wheels, site = Path(work, "wheels"), Path(work, "site")
        download(wheels, [*PINNED.split(), *ANY.split(), KERNELS])
        download(wheels, [core_of_pydantic(wheels)])
        for wheel in wheels.iterdir():
            unpack(wheel, site)
        with tarfile.open(bundle, "w:xz", preset=3) as archive:
            archive.add(site, ".")
    print(f"{bundle}: {bundle.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
