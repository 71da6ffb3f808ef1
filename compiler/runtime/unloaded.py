"""Modules without machine code in this process: what cannot run here, and what only launches."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NoReturn

from whet.compiler.abi.artifact import Artifact
from whet.compiler.errors import ArtifactError, WhetError
from whet.compiler.runtime.library import source
from whet.compiler.runtime.module import Function, Module


class NoCode:
    """Stands for machine code that is not in this process; asking for an address says why."""

    def __init__(self, why: WhetError) -> None:
        self.why = why

    def address_of(self, symbol: str) -> NoReturn:
        """Refused."""
        raise self.why


def code_of_a_gpu() -> NoCode:
    """Stands for the machine code of a CPU, where a module has a GPU's."""
    return NoCode(
        ArtifactError(
            "the address of a function of a module for GPUs",
            "there is no code of a CPU",
            "call the function with arrays on the device",
        )
    )


class UnloadedModule(Module):
    """Code that this process cannot run: it can be read and saved, and calling it says why.

    Args:
        artifact: the code.
        why: raised when one of its functions is called.
        text: what :meth:`get_source` gives without a format, instead of the artifact's.
    """

    def __init__(self, artifact: Artifact, why: WhetError, text: str = "") -> None:
        self._hold(artifact, NoCode(why), [Function(s, self) for s in artifact.signatures])
        self._text = text

    def get_source(self, fmt: str = "") -> str:
        """As for every module; the loops of a host's part, which only launches."""
        return self._text if self._text and not fmt else super().get_source(fmt)

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """As for every module; an object is written as it is, without a C compiler."""
        path = source.path_of(f"save({file_name!r})", file_name)
        kind = fmt or path.suffix.lstrip(".") or self.format
        alone = not any(m.artifact.object for m in self._all()[1:])
        if kind in ("o", "obj") and self.artifact.object and alone:
            source.write(path, self.artifact.object)
            return
        super().save(file_name, fmt)

    def _why_no_text(self) -> str:
        if not self._imported:
            return super()._why_no_text()
        kinds = ", ".join(dict.fromkeys(m.type_key for m in self._imported))
        return f"the host's part of a module for {kinds} only launches: it has loops, and no code"


class HostPart(UnloadedModule):
    """Functions that launch a GPU's kernels: no code of their own, but that of modules beside.

    Args:
        artifact: their signatures, and the host's target.
        why: raised when one is called that no device runs.
        text: the loops that were written for the host.
    """

    launches_only = True

    def launch_with(self, devices: Iterable[Module]) -> None:
        """Let calls go to the functions of these modules that have the same names."""
        for device in devices:
            if isinstance(device, UnloadedModule):
                continue
            own = {n: f for n, f in device._functions.items() if n in self._functions}
            self._functions.update(own)
        self._entry = self._functions[self.artifact.signatures[0].name]
