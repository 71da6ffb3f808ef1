"""Operators' schedules for NVIDIA's GPUs: ``schedule_<operator>``, from the table."""

from __future__ import annotations

from whet.compiler.topi.schedules import face, scheduler

schedule_injective = scheduler("cuda", "injective")
schedule_elemwise = scheduler("cuda", "elemwise")
schedule_broadcast = scheduler("cuda", "broadcast")
schedule_reduce = scheduler("cuda", "reduce")

__getattr__ = face("cuda")

__all__ = ["schedule_broadcast", "schedule_elemwise", "schedule_injective", "schedule_reduce"]
