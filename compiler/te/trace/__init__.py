"""The trace of a schedule: every primitive as plain data, replayed and printed."""
