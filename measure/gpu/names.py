"""What devices that measure are called, by a user and in a log: text only, which costs nothing.

Costs that a model predicted and costs that were measured are never one device's: the emulator's key
names the GPU that is modelled and the model's version.
"""

from __future__ import annotations

import re

CPU, CUDA, EMULATOR = "cpu", "cuda", "cuda-emulator"
MODEL = "model"
"""What a record says of a cost that nobody measured."""
EVERY_GPU = "cuda:*"
"""All GPUs that this process may use."""
NO_GPU = "cuda-none"
"""The key of a GPU that is not there: no record has it."""

_NAME = re.compile(rf"({CPU}|{CUDA}|{EMULATOR})(?::(\d+))?")


def parsed(name: str) -> tuple[str, int] | None:
    """The kind and the number that a device's name says; None where the text names none.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:0"``, ``"cuda-emulator"``, ...
    """
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2] or 0))


def is_model(key: str) -> bool:
    """Whether a device's key says that its costs are a model's."""
    return key.startswith(EMULATOR)
