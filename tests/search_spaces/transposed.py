"""numpy's transposed convolution."""

from __future__ import annotations

import numpy as np


def transposed(
    x: np.ndarray, w: np.ndarray, strides: tuple, padding: tuple, more: tuple
) -> np.ndarray:
    """Each pixel's window, added where it falls; NCHW, the weights (CI, CO, KH, KW)."""
    (n, _, h, wide), (_, co, kh, kw) = x.shape, w.shape
    (sh, sw), (ph, pw) = strides, padding
    full = np.zeros((n, co, (h - 1) * sh + kh + more[0], (wide - 1) * sw + kw + more[1]))
    for y in range(h):
        for z in range(wide):
            part = np.einsum("nc,cokl->nokl", x[:, :, y, z], w)
            full[:, :, y * sh : y * sh + kh, z * sw : z * sw + kw] += part
    return full[:, :, ph : full.shape[2] - ph, pw : full.shape[3] - pw]
