"""The compiler: from tensor expressions and schedules to kernels that are called with arrays."""

from typing import Any

from whet.compiler import late


def _of_topi(name: str) -> Any:
    """An operator of whole tensors; topi is loaded for the first one, so that te alone is light."""
    from whet.compiler import topi

    return getattr(topi, name)


late.whole_tensor_operator = _of_topi
