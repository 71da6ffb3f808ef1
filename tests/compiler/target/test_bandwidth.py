"""The memory bandwidth of a core: plausible numbers, and what cannot be measured."""

import time
from types import SimpleNamespace

import pytest

from whet.compiler.errors import TargetError
from whet.compiler.target.machine import host
from whet.compiler.target.machine.bandwidth import BandwidthProbe


def test_a_probe_moves_what_a_kernel_moves():
    for read, written, names in (
        (1 << 16, 0, {"read"}),
        (1 << 16, 1 << 16, {"copy", "stream copy"}),
        (64, 1 << 16, {"fill", "stream fill"}),
    ):
        probe = BandwidthProbe(read, written)
        assert set(probe.loops) == names
        assert abs(probe.bytes - read - written) <= 1024
        for run in probe.loops.values():
            run()
            run(3)


def test_loops_write_what_they_say():
    probe = BandwidthProbe(1 << 12, 1 << 12)
    for name in ("copy", "stream copy"):
        probe._from[:] = 7
        probe._to[:] = 0
        probe.loops[name]()
        assert (probe._to == 7).all()


def test_a_cache_is_quicker_than_a_slow_disk(monkeypatch):
    # the core's time, not the clock's: others may use it, too
    clock = SimpleNamespace(perf_counter=time.thread_time)
    monkeypatch.setattr("whet.compiler.target.machine.bandwidth.time", clock)
    assert host.bandwidth(1 << 14, seconds=0.02) > 1e9


@pytest.mark.parametrize("sizes", [(-1, 5), (0, 0), (5, -1)])
def test_what_moves_nothing(sizes):
    with pytest.raises(TargetError, match="not less than none"):
        host.bandwidth(*sizes)
