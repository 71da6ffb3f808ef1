"""The system that a target triple names: what an object file can be loaded under."""

from __future__ import annotations

_UNNAMED = ("", "unknown", "pc")
# By how a word of a triple begins; longer names stand before those that begin them.
_SYSTEMS = (
    *("linux", "freebsd", "netbsd", "openbsd", "dragonfly", "windows", "win32", "uefi", "mingw"),
    *("macos", "darwin", "ios", "tvos", "watchos", "xros", "driverkit", "solaris", "aix", "haiku"),
    *("fuchsia", "hurd", "cygwin", "wasi", "emscripten", "rtems", "nacl", "cuda", "hermit"),
    *("serenity", "managarm", "zos", "none", "elfiamcu", "ps4", "ps5"),
)
_FORMATS = ("elf", "coff", "macho", "wasm", "xcoff", "goff")
_WINDOWS = ("windows", "win32", "uefi", "mingw", "cygwin")
_APPLE = ("macos", "darwin", "ios", "tvos", "watchos", "xros", "driverkit")


def system_of(triple: str) -> tuple[str, str, str]:
    """The operating system, the environment and the object format that a triple names.

    What it leaves open is ``""``: an object for ``x86_64`` alone is good for any system of its
    format.
    """
    words = [w for w in triple.lower().split("-")[1:] if w not in _UNNAMED]
    system = environment = form = ""
    for word in words:
        known = next((name for name in _SYSTEMS if word.startswith(name)), "")
        if word in _FORMATS:
            form = word
        elif known and not system:
            system = known
        elif system:
            environment = word  # whatever stands after the system
    return system, environment, form or _format_of(system, triple)


def _format_of(system: str, triple: str) -> str:
    if system in _WINDOWS:
        return "coff"
    if system in _APPLE:
        return "macho"
    return "wasm" if triple.startswith("wasm") else "elf"


def runs_under(made_for: str, here: str) -> bool:
    """Whether objects for one triple can be loaded where another one is at home.

    What is left open by either goes with anything; objects of another format never do.
    """
    pairs = list(zip(system_of(made_for), system_of(here)))
    return pairs[2][0] == pairs[2][1] and all(a == b or not a or not b for a, b in pairs[:2])
