"""A library in the place of NVIDIA's driver, on which pycuda itself runs without a GPU.

Its devices' memory is the host's, its images are libraries that
:func:`~whet.compiler.emulator.compile_emulated` makes. Put :func:`folder` on the system's search
path (``LD_LIBRARY_PATH``) of a new process, or :func:`load` it before pycuda is imported.
"""

from __future__ import annotations

import ctypes
import shlex
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path

from whet.compiler import settings
from whet.compiler.content_cache import ContentCache, digest
from whet.compiler.emulator.standin.symbols import unsupported
from whet.compiler.errors import CodegenError

SOURCES = ("device.c", "queue.c", "streams.c", "capture.c", "memory.c", "modules.c")
NAME = "libcuda.so.1"
_FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-shared", f"-Wl,-soname,{NAME}")
_cache = ContentCache("standin")
_without_cache: list[tempfile.TemporaryDirectory] = []


def folder(devices: int = 2) -> Path:
    """A folder with ``libcuda.so.1``, made when it is first asked for.

    Args:
        devices: how many the library has.

    Raises:
        CodegenError: the C compiler refuses it.
    """
    texts = {name: files(__name__).joinpath(name).read_text() for name in ("standin.h", *SOURCES)}
    texts["unsupported.c"] = unsupported("\n".join(texts.values()))
    command = [*shlex.split(settings.c_compiler()), *_FLAGS, f"-DSTANDIN_DEVICES={devices}"]
    name = digest(*texts.values(), " ".join(command))
    kept = _cache.path(name, ".folder")
    if kept is None:
        _without_cache.append(tempfile.TemporaryDirectory(prefix="whet-standin-"))
        kept = Path(_without_cache[-1].name)
    if not (kept / NAME).exists():
        _build(kept, texts, command)
    return kept


def load(devices: int = 2) -> ctypes.CDLL:
    """Load the library into this process, in which pycuda was not imported yet."""
    return ctypes.CDLL(str(folder(devices) / NAME), mode=ctypes.RTLD_GLOBAL)


def _build(place: Path, texts: dict[str, str], command: list[str]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as made:
        for name, text in texts.items():
            Path(made, name).write_text(text)
        sources = [str(Path(made, name)) for name in texts if name.endswith(".c")]
        out = Path(made, NAME)
        words = [*command, *sources, "-o", str(out), "-ldl", "-lpthread"]
        done = subprocess.run(words, capture_output=True)
        if done.returncode != 0:
            log = done.stderr.decode(errors="replace").replace(f"{made}/", "").strip()
            raise CodegenError("building the stand-in driver", f"it ended: {done.returncode}", log)
        out.replace(place / NAME)
