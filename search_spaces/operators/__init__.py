"""The built-in templates, one name an operator."""
