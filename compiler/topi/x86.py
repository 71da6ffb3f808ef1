"""Operators' schedules for x86 processors: ``schedule_<operator>``, from the table."""

from __future__ import annotations

from whet.compiler.topi.schedules import face, scheduler

schedule_injective = scheduler("x86", "injective")
schedule_elemwise = scheduler("x86", "elemwise")
schedule_broadcast = scheduler("x86", "broadcast")
schedule_reduce = scheduler("x86", "reduce")

__getattr__ = face("x86")

__all__ = ["schedule_broadcast", "schedule_elemwise", "schedule_injective", "schedule_reduce"]
