"""SASS, the instructions that a GPU executes: a cubin through NVIDIA's own disassembler.

It is looked for on PATH, in the CUDA toolkit and in Triton's package, which brings one; none is
needed for anything else.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from whet.compiler import settings
from whet.compiler.errors import TargetError

_TOOLS = {"nvdisasm": ("-c",), "cuobjdump": ("-sass",)}
_TIMEOUT_S = 120.0
_WAY_OUT = (
    "pip install triton, which brings nvdisasm, or install the CUDA toolkit and put its bin "
    "folder on PATH or in CUDA_HOME\nget_source('ptx') needs neither"
)


def disassembled(cubin: bytes) -> str:
    """The SASS text of a cubin's kernels.

    Args:
        cubin: as :func:`whet.compiler.codegen.cuda.nvrtc.compile_cubin` makes it.

    Raises:
        TargetError: there is no disassembler here, or none that knows the architecture.
    """
    request, refused = "disassemble machine code of a GPU", []
    with tempfile.TemporaryDirectory(prefix="whet-sass-") as folder:
        file = Path(folder, "kernels.cubin")
        file.write_bytes(cubin)
        for tool in found_tools():
            text, why = _run(tool, file)
            if not why:
                return text
            refused.append(f"{tool}: {why}")
    if refused:
        raise TargetError(request, f"none that is here takes it ({'; '.join(refused)})", _WAY_OUT)
    places = "on PATH, in the CUDA toolkit, or in Triton's package"
    raise TargetError(request, f"there is neither {' nor '.join(_TOOLS)} {places}", _WAY_OUT)


def found_tools() -> Iterator[Path]:
    """The disassemblers of this machine, the likeliest first."""
    for name in _TOOLS:
        on_path = shutil.which(name)
        if on_path is not None:
            yield Path(on_path)
        for folder in _folders():
            if (folder / name).is_file():
                yield folder / name


def _folders() -> Iterator[Path]:
    """The folders besides PATH that may have them."""
    home = settings.cuda_home()
    yield (Path(home) if home else Path("/usr/local/cuda")) / "bin"
    spec = importlib.util.find_spec("triton")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield Path(root, "backends", "nvidia", "bin")


def _run(tool: Path, file: Path) -> tuple[str, str]:
    """The text, and why there is none."""
    try:
        done = subprocess.run(
            [str(tool), *_TOOLS[tool.name], str(file)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode != 0:
        return "", (done.stderr.strip() or f"it ended with {done.returncode}").splitlines()[-1]
    return done.stdout, ""
