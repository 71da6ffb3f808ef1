"""The rules that schedule any graph of a form, one ordered list a target."""
