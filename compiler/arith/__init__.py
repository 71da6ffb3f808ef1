"""Reasoning about integers: affine forms, bounds, proofs and the simplifier."""

from whet.compiler.arith.affine import Affine
from whet.compiler.arith.analyzer import Analyzer, ConstIntBound

__all__ = ["Affine", "Analyzer", "ConstIntBound"]
