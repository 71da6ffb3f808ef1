"""Templates: functions that say what to compute and which programs are worth trying."""

from whet.search_spaces.template.definition import (
    Template,
    get_template,
    instantiate,
    list_templates,
    resolve,
    space_of,
    template,
)
from whet.search_spaces.values.registry import register, registered

__all__ = [
    "Template",
    "get_template",
    "instantiate",
    "list_templates",
    "register",
    "registered",
    "resolve",
    "space_of",
    "template",
]
