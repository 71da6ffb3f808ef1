"""Plain values of a log: records, identities, the quality of a record, the best of a task."""
