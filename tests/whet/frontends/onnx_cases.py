"""The node tests that the ``onnx`` package brings, and which of them compiled models are for."""

import functools
import warnings
from collections import Counter

import numpy as np

from whet.compiler.errors import ArgumentError
from whet.frontends.onnx import from_onnx

OPSET = 26
DTYPES = {
    "bool", "bfloat16", "float16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip
#: results are strings, or of a shape that depends on data
DATA = {
    "Compress", "ImageDecoder", "NonMaxSuppression", "NonZero", "StringNormalizer",
    "TfIdfVectorizer", "Unique",
}  # fmt: skip
RANDOM = {
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
}  # fmt: skip
#: operator -> the operands on whose values shapes depend: the model is made for these values
SHAPES = {
    "AffineGrid": (1,), "BlackmanWindow": (0,), "CenterCropPad": (1,), "Col2Im": (1, 2),
    "ConstantOfShape": (0,), "CumProd": (1,), "CumSum": (1,), "DFT": (1, 2), "Dropout": (1, 2),
 "Expand": (1,), "HammingWindow": (0,), "HannWindow": (0,), "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "OneHot": (1, 2), "Pad": (1, 2, 3), "Range": (0, 1, 2),
    "Reshape": (1,), "Resize": (1, 2, 3), "STFT": (1, 3), "SequenceAt": (1,),
    "SequenceErase": (1,), "SequenceInsert": (2,), "Slice": (1, 2, 3, 4), "Split": (1,),
    "SplitToSequence": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Trilu": (1,),
    "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip


def kind_of(case):
    """``"fits"``, or why a case is none for a compiled model of numbers and known shapes."""
    graph = case.model.graph
    operators = {n.op_type for n in graph.node}
    versions = {o.domain: o.version for o in case.model.opset_import}
    if max(versions.get("", 0), versions.get("ai.onnx", 0)) > OPSET:
        return f"an opset above {OPSET}"
    if set(versions) - {"", "ai.onnx"}:
        return "another domain"
    if operators & DATA:
        return "shapes that depend on data, strings"
    if operators & RANDOM:
        return "random results"
    given, wanted = case.data_sets[0]
    if not all(str(getattr(a, "dtype", "")) in DTYPES for a in (*given, *wanted)):
        return "other types"
    return "fits"


@functools.cache
def cases():
    """All cases, by name; and how many there are of each kind."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {c.name: c for c in collect_testcases(None)}
    kinds = {name: kind_of(c) for name, c in found.items()}
    return {n: c for n, c in found.items() if kinds[n] == "fits"}, Counter(kinds.values())


def arrays_of(case):
    """Name -> array of the inputs; those on whose values shapes depend; the wanted outputs."""
    graph = case.model.graph
    given, wanted = case.data_sets[0]
    inputs = dict(zip((i.name for i in graph.input), map(np.asarray, given)))
    known = {
        n.input[k]
        for n in graph.node
        for k in (1,) * n.op_type.startswith("Reduce") + SHAPES.get(n.op_type, ())
        if k < len(n.input) and n.input[k] in inputs
    }
    if "_expanded" in case.name:  # a body computes its shapes from small integers
        known |= {n for n, a in inputs.items() if a.dtype.kind in "iu" and a.ndim <= 1}
    return inputs, {name: inputs[name] for name in known}, [np.asarray(a) for a in wanted]


def graph_of(case):
    """The graph of a case, made for its inputs' shapes."""
    inputs, known, _ = arrays_of(case)
    return from_onnx(case.model, {n: a.shape for n, a in inputs.items()}, known)


@functools.cache
def refusals():
    """Name -> why, of the cases that fit and are refused."""
    found = {}
    for name, case in cases()[0].items():
        try:
            graph_of(case).check()
        except ArgumentError as error:
            found[name] = str(error).splitlines()[0]
    return found
