"""The revisions, named 0001, 0002, ...; the last of them is ``whet.db.store.schema.SCHEMA``."""
