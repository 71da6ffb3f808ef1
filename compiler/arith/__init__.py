"""Reasoning about integers: affine forms, bounds, proofs and the simplifier."""

from whet.compiler.arith.affine import Affine
from whet.compiler.arith.analyzer import Analyzer
from whet.compiler.arith.queries import ConstIntBound

__all__ = ["Affine", "Analyzer", "ConstIntBound"]
