"""A model for several sizes of its inputs: one compiled model for each, chosen by a call's arrays.

Sizes are matched exactly: nothing is padded, and nothing is compiled by a call.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whet.compiler.errors import ArgumentError
from whet.compiler.graph.model import Call, Model
from whet.compiler.homes import imported

Sizes = tuple[tuple[int, ...], ...]
"""The shapes of a model's inputs, in order."""


class BucketModel:
    """Models of one network, for different sizes of its inputs.

    Args:
        models: with the same inputs, but for their sizes.

    Attributes:
        buckets: the shapes of the inputs, in order -> the model for them.

    Raises:
        ArgumentError: two of them take the same sizes.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.buckets: dict[Sizes, Model] = {}
        for model in models:
            sizes = tuple(v.shape for v in model.inputs)
            if sizes in self.buckets:
                raise ArgumentError(
                    f"a model for the sizes {_said(sizes)}",
                    "two buckets have these sizes: no input depends on what tells them apart",
                    "name each once",
                )
            self.buckets[sizes] = model
        self._names = [v.name for v in models[0].inputs]

    def __repr__(self) -> str:
        """The inputs and outputs of each bucket."""
        each = (repr(m).removeprefix("<whet model: ").removesuffix(">") for m in self._models)
        return f"<whet model of {len(self.buckets)} buckets: {'; '.join(each)}>"

    @property
    def _models(self) -> list[Model]:
        return list(self.buckets.values())

    @property
    def on_device(self) -> bool:
        """True if kernels of a GPU run it."""
        return self._models[0].on_device

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for some inputs, as of the model for their sizes.

        Args:
            args: arrays in the order of the inputs.
            named: arrays by the inputs' names.

        Raises:
            ArgumentError: an array is missing, or there is no bucket for their sizes.
        """
        return self.bucket(*args, **named)(*args, **named)

    def run(self, inputs: Sequence[Any], out: Sequence[Any]) -> None:
        """Compute the outputs into arrays that are there already, as of :meth:`Model.run`."""
        self.bucket(*inputs).run(inputs, out)

    def dump(self, *args: Any, **named: Any) -> dict[str, np.ndarray]:
        """All values that kernels make, by their names, as of :meth:`Model.dump`."""
        return self.bucket(*args, **named).dump(*args, **named)

    def profile(self, *args: Any, rounds: int = 10, **named: Any) -> list[tuple[Call, float]]:
        """The least seconds of each call, as of :meth:`Model.profile`."""
        return self.bucket(*args, **named).profile(*args, rounds=rounds, **named)

    def export(
        self, path: str | os.PathLike[str], name: str = "", more: Sequence[BucketModel] = ()
    ) -> None:
        """Write a package of all buckets, as of :meth:`Model.export`.

        Args:
            path, name, more: as of a model; ``more`` are models of the same buckets.

        Raises:
            ArtifactError: as of a model.
        """
        imported("whet.compiler.graph.package:write")(self, path, name, more)

    def bucket(self, *args: Any, **named: Any) -> Model:
        """The model for the sizes of some inputs.

        Args:
            args, named: as of a call.

        Raises:
            ArgumentError: an array is missing, or there is none for these sizes.
        """
        sizes = tuple(map(_sizes, args if not named else self._ordered(args, named)))
        found = self.buckets.get(sizes)
        if found is None:
            known = "\n".join(map(_said, self.buckets))
            raise ArgumentError(
                f"model({_said(sizes)})",
                "no bucket has these sizes, and a call compiles nothing",
                f"inputs: {', '.join(self._names)}; buckets:\n{known}",
            )
        return found

    def _ordered(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        given = dict(zip(self._names, args)) | dict(named)
        return [given[name] for name in self._names if name in given]


def _sizes(array: Any) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    return np.shape(array) if shape is None else tuple(shape)


def _said(sizes: Sizes) -> str:
    return ", ".join(str(list(shape)) for shape in sizes)
