"""Several schedules as one module for a GPU, compiled once and run in the emulator."""

from __future__ import annotations

import numpy as np
from emulated import TARGET, on_device

import whet


class Programs:
    """Schedules as one module.

    Args:
        named: name -> (schedule, its arguments).
    """

    def __init__(self, named, target=TARGET):
        functions = [whet.lower(s, args, name=name) for name, (s, args) in named.items()]
        self.module = whet.build(functions, target=target)

    def __call__(self, name, *arrays):
        """The last argument's content after a call, all of it poisoned before."""
        given = [np.asarray(x) for x in arrays]
        return on_device(self.module[name], [*given[:-1], poisoned(given[-1])])[-1]

    def text(self):
        """The CUDA C text."""
        return self.module.get_source("cuda")


def poisoned(array):
    """An array like another one: NaN in floats, all bits set in others."""
    made = np.empty_like(array)
    made.view(np.uint8)[...] = 1 if array.dtype == bool else 0xFF
    return made
