"""A log read without SQLAlchemy: a deployment's first look costs no import."""
