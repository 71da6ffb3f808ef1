"""NVRTC's shared library: where it is, and its calls.

It comes from a wheel, of CUDA 13 or 12, or from the system. From a wheel, the part that holds the
built-in headers must be loaded first: the library has no path of its own on which to find it.
Where several are there, the one of the driver's CUDA is taken: a driver does not load machine code
of a newer one.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whet.compiler.errors import TargetError
from whet.compiler.installed import install_extra

#: folders of wheels under the package ``nvidia``
_FOLDERS = ("cu13", "cuda_nvrtc")
_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")


def paths(driver: int | None = None) -> list[Path]:
    """The libraries of installed wheels, the newest CUDA first.

    Args:
        driver: the driver's CUDA; those that are not newer come before the others.
    """
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec is not None else []
    found = [
        file
        for folder in _FOLDERS
        for root in roots
        for file in Path(root, folder, "lib").glob("libnvrtc.so.*")
        if re.fullmatch(r"libnvrtc\.so\.\d+", file.name)
    ]

    def order(file: Path) -> tuple[bool, int]:
        major = int(file.name.rpartition(".")[2])
        return driver is not None and major > driver, -major

    return sorted(found, key=order)


def driver_cuda() -> int | None:
    """The CUDA that this machine's driver knows, e.g. 13; None where there is no driver."""
    version = ctypes.c_int()
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return None if failed else version.value // 1000


class Nvrtc:
    """The library, loaded.

    Attributes:
        version: of CUDA, e.g. ``(13, 0)``.
        architectures: numbers of what it compiles for, e.g. 80 for ``sm_80``.
        path: where it was found.
    """

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        self._library = library
        self.path = path
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.check("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value, minor.value
        count = ctypes.c_int()
        self.check("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self.check("nvrtcGetSupportedArchs", numbers)
        self.architectures = tuple(numbers)

    def call(self, name: str, *args: Any) -> int:
        """Call a function; its error number, 0 where all is well."""
        return int(getattr(self._library, name)(*args))

    def check(self, name: str, *args: Any) -> None:
        """Call a function that has no reason to fail.

        Raises:
            TargetError: it fails.
        """
        code = self.call(name, *args)
        if code:
            raise TargetError(
                f"{name} of {self.path}",
                f"it failed with {self.meaning(code)}",
                f"install NVRTC again: {install_extra('nvrtc')} --force-reinstall",
            )

    def meaning(self, code: int) -> str:
        """The name of an error number."""
        return str(self._library.nvrtcGetErrorString(code).decode())

    def text(self, program: ctypes.c_void_p, what: str) -> bytes:
        """The output of a program: its ``ProgramLog``, ``PTX`` or ``CUBIN``."""
        size = ctypes.c_size_t()
        self.check(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        held = ctypes.create_string_buffer(size.value)
        self.check(f"nvrtcGet{what}", program, held)
        return held.raw


@functools.cache
def load() -> Nvrtc:
    """NVRTC, found once a process.

    Raises:
        TargetError: there is none.
    """
    tried = []
    for name in _candidates():
        try:
            if "/" in name:
                for part in sorted(Path(name).parent.glob("libnvrtc-builtins.so*")):
                    ctypes.CDLL(str(part))
            return Nvrtc(ctypes.CDLL(name), name)
        except OSError as error:
            tried.append(f"{name}: {error}")
    raise TargetError(
        "compile CUDA C with NVRTC",
        f"there is no NVRTC library ({'; '.join(tried)})",
        f"{install_extra('nvrtc')}\nit needs no GPU; generated CUDA C can be read without it: "
        "module.get_source('cuda')",
    )


def _candidates() -> Iterator[str]:
    yield from (str(p) for p in paths(driver_cuda()))
    found = ctypes.util.find_library("nvrtc")
    if found:
        yield found
    yield from _NAMES
