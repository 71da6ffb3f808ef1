"""The values that cross a border: a workload (what to compute) and a config (which program)."""

from whet.search_spaces.knobs.plain import Choice
from whet.search_spaces.values.config import Config
from whet.search_spaces.values.workload import Workload

__all__ = ["Choice", "Config", "Workload"]
