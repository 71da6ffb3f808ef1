"""numpy, imported when it is first needed: finding a kernel's config in a log needs none of it.

``from whet.compiler.late_numpy import np`` stands where ``import numpy as np`` would.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        """Stands for numpy's module, and takes its names when the first is asked for."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            vars(self).update(vars(numpy))
            return getattr(numpy, name)  # some of numpy's own are made when they are asked for

    np = _Numpy()

__all__ = ["is_array", "is_scalar", "is_scalar_type", "np"]


def is_scalar(value: object) -> bool:
    """True for a number of numpy's: of none, as long as nobody has imported it."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "generic", ()))


def is_array(value: object) -> bool:
    """True for an array of numpy's."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))


def is_scalar_type(value: object) -> bool:
    """True for the type of a number of numpy's: ``numpy.float32``."""
    return isinstance(value, type) and issubclass(
        value, getattr(sys.modules.get("numpy"), "generic", ())
    )
