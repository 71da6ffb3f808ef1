"""Operators' schedules for any target: ``schedule_<operator>``, from the table."""

from __future__ import annotations

from whet.compiler.topi.schedules import face, scheduler

schedule_injective = scheduler("generic", "injective")
schedule_elemwise = scheduler("generic", "elemwise")
schedule_broadcast = scheduler("generic", "broadcast")
schedule_reduce = scheduler("generic", "reduce")

__getattr__ = face("generic")

__all__ = ["schedule_broadcast", "schedule_elemwise", "schedule_injective", "schedule_reduce"]
