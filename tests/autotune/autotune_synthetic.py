"""A space and a cost that need no kernel: a tiled matmul as a small formula with a few cliffs."""

from __future__ import annotations

import math

from whet.measure.values import MeasureResult
from whet.search_spaces import Config, ConfigSpace, get_config, template


@template("test/gemm")
def gemm_template(n, m, k):
    """Three tiled loops, an order, an unroll depth and a vector width: 1e7 configs."""
    cfg = get_config()
    cfg.define_split("tile_i", n, num_outputs=3)
    cfg.define_split("tile_j", m, num_outputs=3)
    cfg.define_split("tile_k", k, num_outputs=2)
    cfg.define_knob("order", ["ijk", "ikj", "kij"])
    cfg.define_knob("unroll", [0, 16, 64, 256])
    cfg.define_knob("vector", [1, 4, 8, 16])
    cfg.add_flop(2 * n * m * k)
    return None, []


@template("test/small")
def small_template(n):
    """3 x 2 x 7 = 42 configs."""
    cfg = get_config()
    cfg.define_knob("a", ["x", "y", "z"])
    cfg.define_knob("b", [False, True])
    cfg.define_split("c", n, num_outputs=2)
    cfg.add_flop(1000)
    return None, []


def gemm_space() -> ConfigSpace:
    return gemm_template.space(gemm_template.workload(768, 1152, 512))


def small_space() -> ConfigSpace:
    return small_template.space(small_template.workload(64))


def gemm_cost(config: Config) -> float:
    """Seconds that a tiled matmul on a made-up core would take."""
    n, bi, ti = config.choice("tile_i")
    m, bj, tj = config.choice("tile_j")
    ko, ki = config.choice("tile_k")
    vector, unroll = config.choice("vector"), config.choice("unroll")
    flop = 2.0 * (n * bi * ti) * (m * bj * tj) * (ko * ki)
    lanes = vector if tj % vector == 0 else 1
    registers = ti * math.ceil(tj / lanes)
    compute = flop / (2e9 * lanes) / min(1.0, registers / 10) ** 0.5
    if registers > 14:
        compute *= (registers / 14) ** 0.7  # spills
    cache = 4.0 * ki * (bi * ti + bj * tj)
    traffic = 4.0 * flop / 2 * (1 / (bi * ti) + 1 / (bj * tj)) / 8e9
    if cache > 256e3:
        traffic *= (cache / 256e3) ** 0.5
    order = {"ijk": 1.0, "ikj": 1.15, "kij": 1.4}[config.choice("order")]
    depth = 1.0 + 0.06 * abs(math.log2(max(unroll, 4) / 64))
    return (max(compute, traffic) + 0.3 * min(compute, traffic) + ko * 1e-6) * order * depth


def small_cost(config: Config) -> float:
    """Seconds; the fastest config of the small space is a=y b=True c=(8, 8)."""
    inner = config.choice("c")[1]
    cost = 1.0 + abs(math.log2(inner) - 3) + {"x": 0.5, "y": 0.0, "z": 0.25}[config.choice("a")]
    return (cost if config.choice("b") else cost + 0.2) * 1e-3


def result(cost: float, program: str = "") -> MeasureResult:
    """A success of three equal repeats, or a build error for an infinite cost."""
    if math.isinf(cost):
        return MeasureResult("build_error", error="Boom: no registers left", stage="build")
    return MeasureResult("ok", (cost,) * 3, program_hash=program)
