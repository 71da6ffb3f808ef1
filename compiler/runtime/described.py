"""The description of a module in a file, as data: signatures, targets, plans, configs' origins.

What is read may be damaged anywhere: exceptions are of any kind, and who reads names the file.
"""

from __future__ import annotations

from typing import Any

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.binding import bindings
from whet.compiler.abi.launch import LaunchPlan
from whet.compiler.abi.layout import scalar
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.runtime.library.gpu_code import with_code


def signature_of(data: dict[str, Any]) -> KernelSignature:
    """The signature that was described.

    Raises:
        Exception: it is none, of any kind.
    """
    signature = KernelSignature.from_json(data)
    named = (signature.name, *signature.symbols, *signature.asserts)
    texts = (*named, *(p.name for p in signature.params))
    extents = [d for p in signature.params if isinstance(p, BufferParam) for d in p.shape]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a name is no text")
    if not all(not isinstance(d, int) or 0 <= d < 2**63 for d in extents):
        raise ValueError(f"{extents} are no extents")
    for p in signature.params:
        scalar(p.dtype)
    bindings(signature)
    return signature


def artifact_of(data: dict[str, Any]) -> Artifact:
    """The artifact that was described, without its machine code."""
    signatures, kernels = (
        tuple(signature_of(s) for s in data.get(key, ())) for key in ("signatures", "kernels")
    )
    plans = tuple(LaunchPlan.from_json(plan) for plan in data.get("plans", ()))
    source = data.get("source", "")
    tuned_by = _tuned_by(data.get("tuned_by"), signatures)
    made = Artifact(b"", signatures, data["target"], source, plans, kernels, tuned_by=tuned_by)
    return with_code(made, data)


def _tuned_by(said: Any, signatures: tuple[KernelSignature, ...]) -> dict[str, TunedBy]:
    """Function -> where its config comes from; earlier libraries say it once, or not at all.

    Raises:
        ValueError: it is no such data.
    """
    if said is None:
        return {}
    if isinstance(said, dict) and "how" in said and isinstance(said["how"], str):
        said = {s.name: said for s in signatures[:1]}
    if not isinstance(said, dict):
        raise ValueError(f"{said!r} does not say where configs come from")
    return {name: TunedBy.from_json(one) for name, one in said.items()}
