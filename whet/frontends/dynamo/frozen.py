"""Tensors that a program has as constants: who they are, and whether they still hold the same."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

_WHOLE = 4096  # bytes up to which all of a tensor is compared
_SAMPLES = 16  # elements of a larger one


class Frozen:
    """Some tensors as they were when a program was compiled.

    The tensors themselves are not kept; what they held is, so that no other tensor can come to
    the same address.

    Args:
        tensors: each such that :func:`can_stand_still`.
        died: is called when one of them is gone.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], died: Callable[[Any], Any]) -> None:
        self._seen = [(weakref.ref(x, died), _Held(x)) for x in tensors]

    def changed(self, tensors: Sequence[torch.Tensor]) -> list[int] | None:
        """The tensors that have changed; None: they are others."""
        found = []
        for k, ((ref, held), x) in enumerate(zip(self._seen, tensors)):
            if ref() is not x:
                return None
            if not held.by(x):
                found.append(k)
        return found


class _Held:
    """The contents that one tensor had.

    Its version counts the writes of PyTorch. Writes by ``.data`` or through numpy it does not
    count: they are seen by comparing small tensors as a whole and sixteen elements of others.
    """

    def __init__(self, x: torch.Tensor) -> None:
        self._state = _state(x)
        plain = x.detach()
        size = plain.element_size()
        few = plain.numel() * size <= _WHOLE
        # bits, as numpy has no bfloat16
        array = plain.view(_BITS.get(size, plain.dtype)).numpy()
        step = 1 if few else -(-plain.numel() // _SAMPLES)
        self._flat: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat
        self._step = step
        self._bits = self._sample()

    def _sample(self) -> bytes:
        found: bytes = self._flat[:: self._step].tobytes()
        return found

    def by(self, x: torch.Tensor) -> bool:
        """True if the tensor holds the same still, as far as can be seen."""
        return _state(x) == self._state and self._sample() == self._bits


_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _state(x: torch.Tensor) -> tuple[Any, ...]:
    return x.data_ptr(), x._version, x.shape, x.stride()


def can_stand_still(x: Any) -> bool:
    """True for a tensor whose changes can be seen: inference tensors count none."""
    return (
        type(x) in (torch.Tensor, torch.nn.Parameter)
        and not x.is_inference()
        and x.layout is torch.strided
        and x.device.type == "cpu"
        and not x.is_neg()
        and not x.is_complex()
        and not x.is_quantized
    )
