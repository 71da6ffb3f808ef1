"""The database behind a log: tables, connection, schema version, faults."""
