"""PyTorch's programs and modules as graphs, and ``torch.compile(module, backend="whet")``."""

from __future__ import annotations

from whet.frontends.torch.importer import from_torch

__all__ = ["from_torch"]
