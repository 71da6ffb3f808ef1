"""A digest of an exported program: its nodes, its sizes and its weights, without a trace."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def digest_of(program: ExportedProgram) -> str | None:
    """The digest of all that the graph of a program follows from.

    Args:
        program: of ``torch.export.export(module, inputs)``.

    Returns:
        None where a node has something that no text tells, or a weight has no bytes in order.
    """
    import torch

    found = hashlib.sha256(torch.__version__.encode())
    signature = program.graph_signature
    lines = [repr(signature.input_specs), repr(signature.output_specs)]
    lines += [f"{s}: {r}" for s, r in program.range_constraints.items()]
    lines.append(repr(_names(torch, program)))
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "call_function", "output"):
            return None
        sizes = _sizes(node.meta.get("val"))
        lines.append(f"{node.name} {node.op} {node.target} {node.args} {node.kwargs} {sizes}")
    text = "\n".join(lines)
    if " at 0x" in text or " object at " in text:  # of an object that says nothing of itself
        return None
    found.update(text.encode())
    for name, x in sorted([*program.state_dict.items(), *program.constants.items()], key=_first):
        if not isinstance(x, torch.Tensor) or not _is_plain(torch, x):
            return None
        found.update(f"\n{name} {x.dtype} {tuple(x.shape)}\n".encode())
        found.update(_bytes(torch, x))
    return found.hexdigest()


def _names(torch: Any, program: ExportedProgram) -> list[Any]:
    """The names of open sizes, which the model has from their ``Dim``."""
    metas = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    sizes = [d for m in metas if isinstance(m, torch.Tensor) for d in m.shape]
    envs = {id(d.node.shape_env): d.node.shape_env for d in sizes if isinstance(d, torch.SymInt)}
    return [sorted(getattr(e, "source_name_to_debug_name", {}).items()) for e in envs.values()]


def _first(pair: tuple[str, Any]) -> str:
    return pair[0]


def _sizes(value: Any) -> Any:
    """The types and shapes of what a node gives, as a text tells them."""
    if isinstance(value, (list, tuple)):
        return [_sizes(x) for x in value]
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else (str(value.dtype), [str(d) for d in shape])


def _is_plain(torch: Any, x: Any) -> bool:
    """True for a tensor whose elements lie in memory as they are."""
    if x.layout != torch.strided or x.is_nested or x.is_quantized or x.device.type == "meta":
        return False
    return not (x.is_conj() or x.is_neg())


def _bytes(torch: Any, x: Any) -> memoryview:
    flat = x.detach().cpu().contiguous().reshape(-1)
    found: memoryview = flat.view(torch.uint8).numpy().data
    return found
