"""Functions that a room calls and a room above it defines, which sets them here."""

from collections.abc import Callable, Mapping
from typing import Any

whole_tensor_operator: Callable[[str], Callable[..., Any]]
"""The function behind ``A + B`` of whole tensors by its name, ``"add"``; :mod:`whet.compiler` sets
it."""

ways_out: Callable[[str], Mapping[str, str]]
"""The names of TVM's that a module (``"tir"``) or a class (``"te.Stage"``) lacks, each with what to
use instead; the finder of :mod:`whet` sets it."""
