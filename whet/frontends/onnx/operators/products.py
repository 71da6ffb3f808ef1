"""Sums of products: Einstein's, Fourier's, determinants."""

from __future__ import annotations

from math import prod

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.node import OnnxNode, Translate
from whet.frontends.onnx.operators.shapes import reshaped

_MOST = 1 << 24  # elements of a matrix of sines and cosines


def _einsum(n: OnnxNode) -> Value:
    operands = [n.input(k) for k in range(len(n.inputs))]
    text = n.attr("equation").replace(" ", "")
    made = operands[0]
    if len(operands) < 3 or "..." in text:
        return n.add("einsum", operands, subscripts=text)
    # in pairs: one loop over all letters would multiply their extents
    left, arrow, out = text.partition("->")
    terms = left.split(",")
    if not arrow:
        out = "".join(sorted(x for x in {*left} - {","} if left.count(x) == 1))
    term = terms[0]
    for k, (other, v) in enumerate(zip(terms[1:], operands[1:]), 1):
        later = {*out, *"".join(terms[k + 1 :])}
        kept = "".join(x for x in dict.fromkeys(term + other) if x in later)
        kept = out if k == len(terms) - 1 else kept
        made = n.add("einsum", [made, v], subscripts=f"{term},{other}->{kept}")
        term = kept
    return made


def _fourier(n: OnnxNode, length: int, parts: int, given: int, onesided: bool, inverse: bool,
             dtype: str) -> tuple[Value, int]:  # fmt: skip
    """The matrix from rows of elements (element, part) to (frequency, part), and its frequencies.

    Args:
        length: of the transform.
        parts: 1 for real elements, 2 for complex ones.
        given: elements that there are; fewer are taken for zeros behind, more are cut off.
    """
    count = length // 2 + 1 if onesided and not inverse else length
    if onesided and inverse:  # from half of the frequencies, to real elements
        k, t = np.arange(min(given, length // 2 + 1))[:, None], np.arange(length)
        angle = 2 * np.pi * ((k * t) % length) / length
        twice = np.where((k == 0) | (2 * k == length), 1, 2) / length
        matrix = np.stack([twice * np.cos(angle), -twice * np.sin(angle)], 1)
        rows = np.zeros((given, 2, length))
        rows[: len(k)] = matrix
        return _constant(n, rows.reshape(2 * given, length), dtype), length
    t, k = np.arange(min(given, length))[:, None], np.arange(count)
    angle = 2 * np.pi * ((k * t) % length) / length
    cos, sin = np.cos(angle), np.sin(angle) if inverse else -np.sin(angle)
    rows = np.zeros((given, parts, count, 2))
    rows[: len(t), 0, :, 0], rows[: len(t), 0, :, 1] = cos, sin
    if parts == 2:
        rows[: len(t), 1, :, 0], rows[: len(t), 1, :, 1] = -sin, cos
    rows = rows / length if inverse else rows
    return _constant(n, rows.reshape(given * parts, count * 2), dtype), count


def _constant(n: OnnxNode, matrix: np.ndarray, dtype: str) -> Value:
    if matrix.size > _MOST:
        raise n.refused(
            f"its transform would be a matrix of {matrix.shape[0]} x {matrix.shape[1]}",
            "run this part elsewhere: there is no fast transform here",
        )
    return n.constant(matrix, dtype)


def _transformed(
    n: OnnxNode, x: Value, axis: int, length: int, onesided: bool, inverse: bool
) -> Value:
    """Fourier's transform of (..., elements, ..., part) along ``axis``."""
    rank, parts = len(x.shape), x.shape[-1]
    others = [k for k in range(rank - 1) if k != axis]
    turned = x
    if axis != rank - 2:
        turned = n.add("transpose", [x], axes=(*others, axis, rank - 1))
    outer = [x.shape[k] for k in others]
    given = x.shape[axis]
    real = onesided and inverse
    source, wide = turned, parts
    if real and parts == 1:
        raise n.refused("its half of the frequencies is real, not complex")
    matrix, count = _fourier(n, length, wide, given, onesided, inverse, x.dtype)
    rows = reshaped(n, source, (prod(outer), given * parts))
    made = n.add("matmul", [rows, matrix])
    made = reshaped(n, made, (*outer, count, 1 if real else 2))
    if axis == rank - 2:
        return made
    back = list(range(rank))
    back[: rank - 1] = [[*others, axis].index(k) for k in range(rank - 1)]
    return n.add("transpose", [made], axes=tuple(back))


def _dft(n: OnnxNode) -> Value:
    x = n.input(0)
    inverse, onesided = (bool(n.attr(name, 0)) for name in ("inverse", "onesided"))
    if n.version >= 20:
        axis = int(np.asarray(n.known(2, np.int64(-2))).reshape(()))
    else:
        axis = n.attr("axis", 1)
    axis = n.axis(axis, len(x.shape))
    have = x.shape[axis]
    usual = 2 * (have - 1) if inverse and onesided else have
    length = int(np.asarray(n.known(1, np.int64(usual))).reshape(()))
    return _transformed(n, x, axis, length, onesided, inverse)


def _stft(n: OnnxNode) -> Value:
    x, step = n.input(0), n.ints(1, "frame_step")[0]
    if n.has(3):
        length = n.ints(3, "frame_length")[0]
    else:
        length = n.input(2).shape[0] if n.has(2) else x.shape[1]
    size = n.input(2).shape[0] if n.has(2) else length
    count = (x.shape[1] - length) // step + 1
    if count < 1:
        raise n.refused(f"frames of {length} elements do not fit {x.shape[1]}")
    places = np.arange(count)[:, None] * step + np.arange(size)
    if places.max() >= x.shape[1]:
        raise n.refused("its window is longer than a frame, and reaches behind the signal")
    frames = n.add("take", [x, n.constant(places, "int64")], axis=1)
    if n.has(2):
        frames = n.add("multiply", [frames, reshaped(n, n.input(2), (1, 1, size, 1))])
    return _transformed(n, frames, 2, length, bool(n.attr("onesided", 1)), False)


TABLE: dict[str, Translate] = {
    "DFT": _dft,
    "Det": lambda n: n.add("det", [n.input(0)]),
    "Einsum": _einsum,
    "STFT": _stft,
}
