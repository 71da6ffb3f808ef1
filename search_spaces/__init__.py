"""Search spaces: templates, the knobs they define, and the configs that choose among programs."""

from whet.search_spaces.knobs.entities import (
    AnnotateEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    VirtualAxis,
)
from whet.search_spaces.knobs.knob import Knob
from whet.search_spaces.space.config_space import ConfigSpace
from whet.search_spaces.template import (
    Template,
    get_template,
    instantiate,
    list_templates,
    resolve,
    space_of,
    template,
)
from whet.search_spaces.template.config_scope import (
    ConfigView,
    config_in_force,
    get_config,
    using_config,
    using_resolver,
)
from whet.search_spaces.template.ref import TemplateRef
from whet.search_spaces.values import Choice, Config, Workload

__all__ = [
    "AnnotateEntity",
    "Choice",
    "Config",
    "ConfigSpace",
    "ConfigView",
    "Knob",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "Template",
    "TemplateRef",
    "VirtualAxis",
    "Workload",
    "config_in_force",
    "get_config",
    "get_template",
    "instantiate",
    "list_templates",
    "resolve",
    "space_of",
    "template",
    "using_config",
    "using_resolver",
]
