"""TVM's names: modules that TVM has, aliases, and the way out for names that are not here.

No other room imports this one: it stands on top of all of them.
"""
