"""What devices that measure are called, by a user and in a log: text only, which costs nothing.

Costs that a model predicted and costs that were measured are never one device's: the emulator's key
names the GPU that is modelled and the model's version.
"""

from __future__ import annotations

import difflib
import re

CPU, CUDA, EMULATOR = "cpu", "cuda", "cuda-emulator"
MODEL = "model"
"""What a record says of a cost that nobody measured."""
EVERY_GPU = "cuda:*"
"""All GPUs that this process may use."""
NO_GPU = "cuda-none"
"""The key of a GPU that is not there: no record has it."""

_NAME = re.compile(rf"({CPU}|{CUDA}|{EMULATOR})(?::(\d+))?")
_KEY_OF_A_GPU = re.compile(rf"{NO_GPU}|{CUDA}-[0-9a-f]{{12}}|{EMULATOR}-[\w.-]+-v\d+")


def parsed(name: str) -> tuple[str, int] | None:
    """The kind and the number that a device's name says; None where the text names none.

    Args:
        name: ``"cpu"``, ``"cuda"``, ``"cuda:0"``, ``"cuda-emulator"``, ...
    """
    found = _NAME.fullmatch(name)
    return None if found is None else (found[1], int(found[2] or 0))


def is_misspelt(text: str) -> bool:
    """Whether a text is about a GPU, and is neither a device's name nor its key in a log.

    Args:
        text: a name, or a key such as ``"cuda-0123456789ab"`` or ``"cuda-emulator-a100-v2"``.
    """
    named = parsed(text) is not None or text == EVERY_GPU
    return text.startswith(CUDA) and not named and _KEY_OF_A_GPU.fullmatch(text) is None


def nearest_name(text: str) -> str:
    """``"did you mean 'cuda-emulator'? "`` for a name that is close to a text, or nothing."""
    close = difflib.get_close_matches(text, [EMULATOR, f"{CUDA}:0", EVERY_GPU, CUDA, CPU], 1)
    return f"did you mean {close[0]!r}? " if close else ""


def is_model(key: str) -> bool:
    """Whether a device's key says that its costs are a model's."""
    return key.startswith(EMULATOR)
