"""A GPU's code in an exported library: machine code for its architecture, PTX for later ones.

With it a program runs where nothing compiles: the driver takes both. What it does not take, an
older GPU's code say, is compiled from the text, which is in the library, too.
"""

from __future__ import annotations

import base64
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from whet.compiler.abi.artifact import Artifact
from whet.compiler.errors import CodegenError, TargetError
from whet.compiler.target.kinds import KINDS

_MOST_BYTES = 1 << 28


def code_as_data(artifact: Artifact) -> dict[str, str]:
    """The machine code and the PTX of an artifact, as text for JSON; nothing for a CPU's.

    Where there is no NVRTC, or one that does not know the architecture, what the artifact holds,
    and a warning: its text is compiled where it is called.

    Raises:
        CodegenError: NVRTC refuses the text.
    """
    if artifact.target.get("kind") != "cuda" or not artifact.plans or not artifact.kernels:
        return {}
    made = _compiled(artifact)
    return {"cubin": _as_text(made.object), "ptx": _as_text(made.ptx.encode()), "log": made.log}


def with_code(artifact: Artifact, data: Mapping[str, Any]) -> Artifact:
    """The artifact with the code that :func:`code_as_data` described."""
    if "cubin" not in data:
        return artifact
    code, ptx = _bytes(data["cubin"]), _bytes(data["ptx"]).decode()
    return replace(artifact, object=code, ptx=ptx, log=str(data.get("log", "")))


def _compiled(artifact: Artifact) -> Artifact:
    compile_cubin = KINDS["cuda"].tool("compile_cubin")
    source, arch = artifact.source, str(artifact.target["arch"])
    try:
        if not artifact.object:
            made = compile_cubin(source, arch)
            artifact = replace(artifact, object=made.cubin, log=made.log)
        if not artifact.ptx:
            artifact = replace(artifact, ptx=_portable(source, arch))
    except TargetError as error:  # no NVRTC here, or one that does not know the architecture
        warnings.warn(
            f"{artifact.signatures[0].name} is exported without machine code for {arch}: {error}\n"
            "its text is in the library, and is compiled where it is called",
            RuntimeWarning,
            stacklevel=2,
        )
    return artifact


def _portable(source: str, arch: str) -> str:
    """PTX that later GPUs take; none where the text needs what ``sm_90a``, say, alone has."""
    compile_cubin, compile_ptx = map(KINDS["cuda"].tool, ("compile_cubin", "compile_ptx"))
    without_letter = arch.rstrip("af")
    if without_letter != arch:
        try:
            compile_cubin(source, without_letter)  # PTX itself is not looked at
        except CodegenError:
            return ""
    return compile_ptx(source, without_letter)


def _as_text(code: bytes) -> str:
    return base64.b64encode(zlib.compress(code, 9)).decode()


def _bytes(text: str) -> bytes:
    stream = zlib.decompressobj()
    code = stream.decompress(base64.b64decode(text), _MOST_BYTES)
    if not stream.eof:
        raise ValueError(f"code of more than {_MOST_BYTES:,} bytes, or cut off")
    return code
