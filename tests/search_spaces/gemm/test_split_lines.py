"""Costs of a matrix's rows that are no whole lines, where they are added up without tiles."""

import pytest

import whet
from whet.search_spaces.rules.cpu import reduction
from whet.search_spaces.rules.cpu.gemm.costs import INTEL_SERVER, ZEN


@pytest.mark.parametrize(
    ("row", "vector", "share"),
    [(64 * 17, 64, 0.0), (1064, 64, 7 / 8), (4000, 64, 1 / 2), (4000, 32, 0.0), (4, 32, 7 / 16)],
)
def test_vectors_that_lie_across_two_lines(row, vector, share):
    assert reduction._crossing(row, vector) == pytest.approx(share)
    starts = [k * row % 64 for k in range(64)]
    assert sum(s + vector > 64 for s in starts) / 64 == pytest.approx(share)


def test_only_intels_servers_are_known_to_pay():
    assert (ZEN.split, INTEL_SERVER.split) == (0.0, 1.0)


def test_the_estimate_counts_them(monkeypatch):
    target = whet.Target("llvm -mcpu=sapphirerapids -num_threads=1")

    def rule(k: int) -> str:
        args = (1, k, 1000, False, False, "float32", (), True)  # packed
        task = whet.create_task("matmul", args=args, target=target)
        return task.config_space.default.as_dict()["rule"]

    assert rule(2048) == "reduction"
    monkeypatch.setattr(reduction, "_crossing", lambda row, vector: 1.0)
    assert rule(2049) == "gemm"  # another one: what was chosen once is remembered
