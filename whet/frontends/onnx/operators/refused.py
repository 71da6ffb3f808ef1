"""ONNX's operators that are not translated, and why; of known values all but random ones fold."""

from __future__ import annotations

_DATA = "the shape of its result depends on data"
_RANDOM = "its results are random"
_TEXT = "it works on strings"

REFUSED: dict[str, str] = {
    "Bernoulli": _RANDOM,
    "Compress": _DATA,
    "Constant": "its value is not of numbers",
    "ConstantOfShape": _DATA,
    "ImageDecoder": "it decodes the bytes of a file",
    "MaxRoiPool": "it rounds regions to pixels; RoiAlign is there",
    "MelWeightMatrix": "its matrix depends on data",
    "Multinomial": _RANDOM,
    "NonMaxSuppression": _DATA,
    "NonZero": _DATA,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "Range": _DATA,
    "RegexFullMatch": _TEXT,
    "StringConcat": _TEXT,
    "StringNormalizer": _TEXT,
    "StringSplit": _TEXT,
    "TfIdfVectorizer": _TEXT,
    "Unique": _DATA,
}
"""Operator of the domain ``ai.onnx`` -> why it is refused where its operands are not known."""

KNOWN = frozenset({"Constant", "ConstantOfShape", "MelWeightMatrix", "Range"})
"""Of these, operators whose operands are known in models that are compiled."""

RANDOM = frozenset(name for name, why in REFUSED.items() if why == _RANDOM)
"""Operators that are not folded, either."""
