"""The ground that passes stand on: their configuration, and rewriting with the facts of a place."""
