"""Images enlarged and shrunk."""

from __future__ import annotations

from whet.compiler.graph import Value
from whet.frontends.torch.operators.node import AtenNode, Translate


def _upsample(method: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        x, size = n.value(_operand(n)), list(n.shape[2:])
        factors = n.get("scale_factors") or [n.get("scales_h"), n.get("scales_w")]
        for have, made, factor in zip(x.shape[2:], size, factors):
            if factor is not None and made != have * factor:
                raise n.refused(f"it enlarges {have} elements {factor:g} times, to {made}")
        corners = bool(n.get("align_corners", False))
        mode = "align_corners" if corners else "half_pixel"
        if method == "nearest_neighbor":
            return n.add(
                "resize2d", [x], size=size, method=method, mode="asymmetric", rounding="floor"
            )
        return n.add("resize2d", [x], size=size, method=method, mode=mode)

    return translate


def _operand(n: AtenNode) -> str:
    """The name of its operand: two forms of the operators give it two."""
    return "self" if "self" in n.args else "input"


TABLE: dict[str, Translate] = {
    **{f"aten.upsample_nearest2d.{o}": _upsample("nearest_neighbor") for o in ("default", "vec")},
    **{f"aten.upsample_bilinear2d.{o}": _upsample("linear") for o in ("default", "vec")},
}
