"""Every environment variable that Whet reads, with its default.

Nothing else looks at the environment.

| variable | default | meaning |
| --- | --- | --- |
| ``WHET_NUM_THREADS`` | physical cores this process may use | threads of a parallel loop |
| ``WHET_CPU`` | ``native`` | the level that this machine passes for; see below |
| ``CC`` | ``cc`` | the C compiler that links exported libraries and compiles target ``c`` |
| ``CXX`` | ``g++`` | the C++ compiler that compiles kernels for the emulator |
| ``WHET_CACHE_DIR`` | ``~/.cache/whet`` | GPU code, facts of the CPU; empty text: keep none |
| ``WHET_CACHE`` | ``WHET_CACHE_DIR`` | compiled models of ``whet.compile``; ``0``: keep none |
| ``XDG_CACHE_HOME`` | ``~/.cache`` | where ``whet`` is, if ``WHET_CACHE_DIR`` is not set |
| ``CUDA_VISIBLE_DEVICES`` | all | GPUs that programs see; names the lock of the one that measures |
| ``CUDA_DEVICE_ORDER`` | ``FASTEST_FIRST`` | how CUDA numbers GPUs; or ``PCI_BUS_ID`` |
| ``CUDA_HOME`` | ``/usr/local/cuda`` | the CUDA toolkit, for its disassembler |
| ``RAY_AUTH_MODE`` | ``token`` | what a Ray cluster asks of who connects; or ``disabled`` |
| ``RAY_AUTH_TOKEN`` | none | the token itself, in place of a file |
| ``RAY_AUTH_TOKEN_PATH`` | ``~/.ray/auth_token`` | the file of the token |
| ``WHET_TUTORIAL_EXEC_PATTERN`` | all | lessons that building the documentation executes |

``WHET_CPU`` is ``x86-64-v2``, ``x86-64-v3``, ``x86-64-v4`` (vectors of 16, 32 and 64 bytes) or
``native``, which is all that the processor has. Code for a target that names no processor is made
for that level, in all processes that inherit the environment; code that needs more is refused, as
on a machine of that level, and logs know it as another machine. One that the processor lacks is an
error. ``scripts/test --cpu`` sets it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from whet.compiler.errors import ArgumentError, TargetError


def _text(variable: str) -> str:
    return os.environ.get(variable, "").strip()


def num_threads() -> int | None:
    """``WHET_NUM_THREADS`` as a number, or None when it is not set.

    Raises:
        TargetError: it is set to something that is not an integer of at least 1.
    """
    text = _text("WHET_NUM_THREADS")
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise TargetError(
            f"WHET_NUM_THREADS={text}",
            "the number of threads must be an integer of at least 1",
            "unset it to use one thread a physical core",
        )
    return int(text)


def cpu_level() -> str:
    """``WHET_CPU``: the level that this machine passes for; empty: all that it has.

    Which levels there are, and which of them it has, ``compiler/target/machine/host.py`` knows.
    """
    text = _text("WHET_CPU")
    return "" if text == "native" else text


def c_compiler() -> str:
    """``CC``, or ``cc``: the command that starts the C compiler, with options it may have."""
    return _text("CC") or "cc"


def cxx_compiler() -> str:
    """``CXX``, or ``g++``: the command that starts the C++ compiler, with options it may have."""
    return _text("CXX") or "g++"


def cache_dir() -> Path | None:
    """``WHET_CACHE_DIR``, or ``~/.cache/whet``; None where it is set to nothing: keep no cache."""
    given = os.environ.get("WHET_CACHE_DIR")
    if given is None:
        base = _text("XDG_CACHE_HOME")
        return Path(base or Path.home() / ".cache", "whet")
    return Path(given).expanduser() if given.strip() else None


def model_cache_dir() -> Path | None:
    """``WHET_CACHE``, or :func:`cache_dir`; None where it is ``0``: keep no compiled models."""
    given = _text("WHET_CACHE")
    if given == "0":
        return None
    return Path(given).expanduser() if given else cache_dir()


def tutorial_exec_pattern() -> str:
    """``WHET_TUTORIAL_EXEC_PATTERN``: a regular expression that is searched in lessons' paths.

    ``none`` executes no lesson; unset or empty executes all. ``docs/conf.py`` asks.

    Raises:
        ArgumentError: it is not a regular expression.
    """
    text = _text("WHET_TUTORIAL_EXEC_PATTERN")
    if text == "none":
        return "(?!)"  # matches nothing, whatever the folders are called
    try:
        re.compile(text)
    except re.error as error:
        raise ArgumentError(
            f"WHET_TUTORIAL_EXEC_PATTERN={text}",
            f"it is not a regular expression: {error}",
            "'vector_add|schedule' executes two lessons, 'none' none; unset it to execute all",
        ) from error
    return text or "."


def cuda_visible_devices() -> tuple[str, ...]:
    """``CUDA_VISIBLE_DEVICES`` as a tuple of numbers or UUIDs; empty where it is not set."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(x.strip() for x in text.split(",") if x.strip())


def orders_cuda_devices_by_bus() -> bool:
    """True if ``CUDA_DEVICE_ORDER`` is ``PCI_BUS_ID``: CUDA numbers GPUs by their places."""
    return _text("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"


def cuda_home() -> str:
    """``CUDA_HOME``: the folder of the CUDA toolkit; empty where it is not set."""
    return _text("CUDA_HOME")


def hides_cuda_devices() -> bool:
    """True if ``CUDA_VISIBLE_DEVICES`` is set and names no GPU."""
    return "CUDA_VISIBLE_DEVICES" in os.environ and not cuda_visible_devices()


def ray_auth_mode() -> str:
    """``RAY_AUTH_MODE``, or ``token``: what a Ray cluster asks of who connects.

    Raises:
        ArgumentError: it is neither ``token`` nor ``disabled``.
    """
    text = _text("RAY_AUTH_MODE").lower() or "token"
    if text not in ("token", "disabled"):
        raise ArgumentError(
            f"RAY_AUTH_MODE={text}",
            "a cluster asks for a token, or for nothing",
            "unset it, which is 'token'; 'disabled' lets everybody run code who reaches the ports",
        )
    return text


def ray_token() -> str:
    """``RAY_AUTH_TOKEN``: the token of a Ray cluster; empty where a file has it."""
    return _text("RAY_AUTH_TOKEN")


def ray_token_path() -> Path:
    """``RAY_AUTH_TOKEN_PATH``, or ``~/.ray/auth_token``: the file of a Ray cluster's token."""
    given = _text("RAY_AUTH_TOKEN_PATH")
    return Path(given).expanduser() if given else Path.home() / ".ray" / "auth_token"


def inherited() -> dict[str, str]:
    """A copy of the whole environment, for a program that is started."""
    return dict(os.environ)
