"""Operators' compute definitions: what they compute, whatever the schedule."""

from whet.compiler.topi import nn
from whet.compiler.topi.matmul import matmul
from whet.compiler.topi.pad import pad

__all__ = ["matmul", "nn", "pad"]
