"""The constants of a model in one memory: those that kernels pack are packed to their place.

Places come first, and bytes last, so that nothing is there twice: a model's weights are most of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.graph.executor import CONSTANTS, Place
from whet.compiler.graph.ir import Graph, Value, digest
from whet.compiler.graph.memory import ALIGNMENT
from whet.compiler.runtime.arrays.aligned import aligned_empty, give_back
from whet.compiler.runtime.module import Module

_MOST_FREED = 1 << 23  # bytes that are free and still the process's


@dataclass(frozen=True)
class Stored:
    """An array that kernels read and no call changes.

    Attributes:
        made_of: the constant; or the arguments of the function that packs.
        shape, dtype: as it is stored.
        packed_by: the module whose kernel takes it packed; None: it is stored as it is.
        which: its number among the arrays that are packed together.
    """

    made_of: Value | tuple[Value | Stored, ...]
    shape: tuple[int, ...]
    dtype: str
    packed_by: Module | None = None
    which: int = 0

    @property
    def key(self) -> Any:
        """The identity of its bytes, whatever it is seen as."""
        return self.made_of, self.packed_by and id(self.packed_by), self.which


class Constants:
    """The places of what is stored.

    Args:
        graphs: whose constants are asked for.

    Attributes:
        size: bytes of all.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._arrays = {v: a for graph in graphs for v, a in graph.constants.items()}
        self._places: dict[Any, tuple[Place, Stored]] = {}
        self.size = 0

    def place(self, one: Stored) -> Place:
        """Where an array is, which is added where it is new."""
        key = self._key(one)
        if key not in self._places:
            self._places[key] = Place(CONSTANTS, self.size), one
            size = numpy_dtype(one.dtype).itemsize * int(np.prod(one.shape, dtype=np.int64))
            self.size += -(-size // ALIGNMENT) * ALIGNMENT
        return self._places[key][0]

    def _key(self, one: Stored) -> Any:
        """The identity of an array's bytes."""
        return one.key

    def memory(self) -> np.ndarray:
        """All bytes; those between arrays are 0. The last use of an array lets it go."""
        give_back()  # what importing and rewriting the model left
        memory = aligned_empty((max(self.size, 1),), np.dtype(np.uint8))
        end, gaps = 0, []
        works: dict[Any, dict[int, np.ndarray]] = {}
        for place, one in self._places.values():
            gaps.append((end, place.offset))
            dtype, count = numpy_dtype(one.dtype), int(np.prod(one.shape, dtype=np.int64))
            end = place.offset + dtype.itemsize * count
            view = memory[place.offset : end].view(dtype).reshape(one.shape)
            of = (one,) if one.packed_by is None else one.made_of
            works.setdefault((one.packed_by, of), {})[one.which] = view
        gaps.append((end, memory.size))
        freed = 0
        uses = Counter(w.made_of for _, weights in works for w in weights)
        largest_first = sorted(works.items(), key=lambda w: -sum(o.nbytes for o in w[1].values()))
        for (module, weights), outputs in largest_first:
            given = tuple(map(self._array, weights))
            if module is None:
                outputs[0][...] = given[0]
            else:
                module.entry_func.pack_weights(*given, out=[outputs[k] for k in sorted(outputs)])
            del given
            uses.subtract(w.made_of for w in weights)
            for w in weights:
                if uses[w.made_of] == 0:
                    gone = self._arrays.pop(w.made_of, None)
                    freed += 0 if gone is None else gone.nbytes
            gone = None
            if freed > _MOST_FREED:
                freed = 0
                give_back()
        for begin, end in gaps:  # last: one byte may take a large page of memory
            memory[begin:end] = 0
        return memory

    def _array(self, one: Any) -> np.ndarray:
        assert isinstance(one, Stored) and isinstance(one.made_of, Value)
        return self._arrays[one.made_of].reshape(one.shape)


class SharedConstants(Constants):
    """Constants of several graphs: what has the same bytes, packed or not, is there once."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        super().__init__(graphs)
        self._bytes: dict[str, np.ndarray] = {}

    def _key(self, one: Stored) -> str:
        array = self._packed(one) if one.packed_by is not None else self._array(one)
        key = digest(array)
        self._bytes.setdefault(key, array)
        return key

    def _packed(self, one: Stored) -> np.ndarray:
        """The array, packed now: only its bytes tell whether another one is the same."""
        assert one.packed_by is not None and isinstance(one.made_of, tuple)
        made = one.packed_by.pack_weights(*map(self._array, one.made_of))
        return np.asarray(made[one.which] if isinstance(made, tuple) else made)

    def memory(self) -> np.ndarray:
        """All bytes; those between arrays are 0."""
        memory = aligned_empty((max(self.size, 1),), np.dtype(np.uint8))
        memory[:] = 0
        for key, (place, _) in self._places.items():
            flat = np.ascontiguousarray(self._bytes.pop(key)).reshape(-1).view(np.uint8)
            memory[place.offset : place.offset + flat.size] = flat
        return memory
