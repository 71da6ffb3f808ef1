"""The operators of whole tensors, ``A + B``: te calls them, and a room above te defines them."""

from collections.abc import Callable
from typing import Any

whole_tensor_operator: Callable[[str], Callable[..., Any]]
"""The function behind an operator by its name, e.g. ``"add"``; :mod:`whet.compiler` sets it."""
