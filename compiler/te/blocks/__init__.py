"""Schedules as functions made of blocks: ``te.create_prim_func`` and ``tir.Schedule``."""
