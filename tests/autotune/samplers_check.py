"""Searches without a pool: ask and tell as the loop does, over spaces of every size."""

from __future__ import annotations

import numpy as np
from autotune_synthetic import result

from whet.autotune.samplers import make_sampler
from whet.autotune.search.study import Search
from whet.search_spaces import Config, ConfigSpace, get_config, template

WINDOW = 4


def propose(space, sampler, count, cost, recorded=(), seed=0, window=WINDOW, **given):
    """The first ``count`` configs of a search; the first ``recorded`` are placed, not asked.

    ``window`` is how many may be in flight: a number, or a function of the next trial's.
    """
    most = window if callable(window) else lambda number: window
    search = Search(space, make_sampler(sampler, space, seed, **given))
    configs: list[Config] = []
    while search.observed < count:
        while search.proposed < count and search.proposed - search.observed < most(search.proposed):
            if search.proposed < len(recorded):
                configs.append(recorded[search.proposed])
                search.place(configs[-1])
            else:
                configs.append(search.ask())
        search.tell(result(cost(configs[search.observed])))
    return configs


@template("test/tied")
def tied_template(n):
    """Three knobs of n choices and one of four; only a sixth or so of their products is valid."""
    cfg = get_config()
    for name in "abc":
        cfg.define_knob(name, list(range(n)))
    cfg.define_knob("mode", ["plain", "packed", "tiled", "both"])
    cfg.multi_filter(lambda c: c["a"].val <= c["b"].val)
    cfg.multi_filter(lambda c: (c["b"].val + c["c"].val) % 3 != 1 or c["mode"].val == "both")
    return None, []


@template("test/huge")
def huge_template(n):
    """n knobs of ten choices."""
    cfg = get_config()
    for i in range(n):
        cfg.define_knob(f"k{i}", list(range(10)))
    return None, []


@template("test/single")
def single_template(n):
    """One config."""
    get_config().define_knob("only", [n])
    return None, []


@template("test/bare")
def bare_template(n):
    """One config, and no knob."""
    get_config()
    return None, []


def tied_space(n: int = 8) -> ConfigSpace:
    return tied_template.space(tied_template.workload(n))


def huge_space() -> ConfigSpace:
    return huge_template.space(huge_template.workload(12))


def single_space() -> ConfigSpace:
    return single_template.space(single_template.workload(7))


def bare_space() -> ConfigSpace:
    return bare_template.space(bare_template.workload(7))


def tied_cost(config: Config) -> float:
    """Seconds; least at a = 2, b = 5, c = 0, packed."""
    a, b, c = (config.choice(name) for name in "abc")
    mode = {"plain": 1.5, "packed": 1.0, "tiled": 1.3, "both": 2.0}[config.choice("mode")]
    return (1.0 + abs(a - 2) + abs(b - 5) + 0.5 * c) * mode * 1e-3


def huge_cost(config: Config) -> float:
    """Seconds; least where every knob is 3."""
    return 1e-3 * (1.0 + sum(abs(config.choice(f"k{i}") - 3) for i in range(12)))


class SynthFeatures:
    """Loop features of the gemm space: its cost with errors, as an estimate, and some sizes."""

    def __init__(self, space: ConfigSpace, cost, error: float = 0.5, fails=lambda config: False):
        from whet.autotune.features import NAMES

        self.space, self.cost, self.error, self.fails = space, cost, error, fails
        self.width, self.at = len(NAMES), NAMES.index("estimate")

    def structures_of(self, points: np.ndarray) -> int:
        return 1

    def of_points(self, points: np.ndarray) -> np.ndarray:
        rows = np.zeros((len(points), self.width), dtype=np.float32)
        for row, point in zip(rows, points):
            config = self.space.decode(point)
            if self.fails(config):
                row[:] = np.nan
                continue
            noise = 2.0 * np.sin(1e4 * np.sin(float(point @ np.arange(1, len(point) + 1))))
            row[self.at] = np.log2(self.cost(config)) + self.error * noise
            others = [k for k in range(self.width) if k != self.at][: len(point)]
            row[others] = point[: len(others)]
        return rows
