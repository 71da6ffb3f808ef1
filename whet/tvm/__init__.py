"""TVM's names: modules that TVM has, aliases, and the way out for names that are not here.

No other room imports this one or knows its name: it stands on top of all of them. :mod:`whet` shows
its modules; its finder gives the table of absent names to ``whet.compiler.late``.
"""
