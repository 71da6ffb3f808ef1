"""Announced devices as names of Ray resources: there and back, and other people's names."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from whet.measure.cluster.announce import Announced, cores_of_text, name, parse, text_of_cores

KINDS = st.text("abcdef0123456789-_.|% ", min_size=1, max_size=30)
CORES = st.sets(st.integers(0, 999), min_size=1).map(lambda cores: tuple(sorted(cores)))


@given(kind=KINDS, host=KINDS, numa=st.integers(0, 99), cores=CORES)
def test_a_core_set_is_read_from_its_name(kind, host, numa, cores):
    announced = Announced(kind, host, numa, cores)
    assert parse(name(announced)) == announced


@given(kind=KINDS, host=KINDS)
def test_gpus_are_read_from_their_name(kind, host):
    assert parse(name(Announced(kind, host))) == Announced(kind, host)


@given(cores=CORES)
def test_cores_are_written_as_linux_writes_them(cores):
    assert cores_of_text(text_of_cores(cores)) == cores


def test_two_sets_of_one_machine_have_two_names():
    one, other = (Announced("cpu-1", "node1", 0, cores) for cores in ((0, 1), (2, 3)))
    assert name(one) == "whet|cpu-1|node1|n0|0-1" != name(other)


@pytest.mark.parametrize(
    "other",
    ["CPU", "GPU", "node:127.0.0.1", "whet", "whet|", "whet|cpu-1", "whet||host", "whet|cpu-1|h|n0"]
    + ["whet|cpu-1|h|0|1", "whet|cpu-1|h|n0|", "whet|cpu-1|h|n0|a", "whet|cpu-1|h|n0|3-1"]
    + ["whet_measurer", "whet|cpu-1|h|n0|1|2", "whet|cpu-1|h|n0|9999999"],
)
def test_names_of_others_are_no_devices(other):
    assert parse(other) is None
