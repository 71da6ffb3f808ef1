"""Division of a machine's cores, on made-up trees of /sys."""

from __future__ import annotations

import pytest

from whet.compiler.errors import ArgumentError
from whet.measure.cluster.cores import CoreSet, Division, Topology, divide


def tree(folder, nodes, siblings=()):
    """A machine's /sys/devices/system: cores of each NUMA node, groups of siblings."""
    for number, cores in enumerate(nodes):
        node = folder / f"node/node{number}"
        node.mkdir(parents=True)
        (node / "cpulist").write_text(f"{cores}\n")
    for group in siblings:
        for core in group:
            place = folder / f"cpu/cpu{core}/topology"
            place.mkdir(parents=True)
            (place / "thread_siblings_list").write_text(",".join(map(str, group)) + "\n")
    return folder


@pytest.fixture
def server(tmp_path):
    """Two NUMA nodes of two physical cores, two hyper-threads each: cores 0-3 and 4-7."""
    pairs = [(0, 4), (1, 5), (2, 6), (3, 7)]
    system = tree(tmp_path, ["0-1,4-5", "2-3,6-7"], pairs)
    return lambda allowed=range(8): Topology(allowed, system)


def test_by_default_one_core_of_each_node_measures_and_its_sibling_rests(server):
    assert divide(server()) == Division((CoreSet(0, (1,)), CoreSet(1, (3,))), (0, 2, 4, 6))


def test_to_measure_alone_takes_one_hyper_thread_of_each_core(server):
    assert divide(server(), measure=["all"]) == Division(
        (CoreSet(0, (0, 1)), CoreSet(1, (2, 3))), ()
    )


def test_to_build_alone_takes_all(server):
    assert divide(server(), build="all") == Division((), tuple(range(8)))


def test_a_set_that_spans_nodes_is_one_in_each(server):
    division = divide(server(), measure=["1-2"], build="all")
    assert division == Division((CoreSet(0, (1,)), CoreSet(1, (2,))), (0, 3, 4, 7))


def test_several_sets_of_one_node_are_apart(server):
    division = divide(server(), measure=["0", "1"], build="2-3")
    assert division == Division((CoreSet(0, (0,)), CoreSet(0, (1,))), (2, 3))


def test_what_builds_leaves_the_rest_to_measure(server):
    division = divide(server(), measure=["all"], build="0,4")
    assert division == Division((CoreSet(0, (1,)), CoreSet(1, (2, 3))), (0, 4))


def test_a_set_may_name_both_hyper_threads(server):
    assert divide(server(), measure=["1,5"]).measuring == (CoreSet(0, (1, 5)),)


def test_only_cores_that_the_process_may_use_are_divided(server):
    assert divide(server([2, 3, 6])) == Division((CoreSet(1, (3,)),), (2, 6))
    assert divide(server([0, 1, 4, 5]), cores="0-1") == Division((CoreSet(0, (1,)),), (0,))


def test_a_kernel_that_names_no_nodes_has_one(tmp_path):
    assert divide(Topology([0, 1], tmp_path)) == Division((CoreSet(0, (1,)),), (0,))


def test_a_machine_of_one_core_measures_and_does_not_build(tmp_path):
    assert divide(Topology([0], tmp_path)) == Division((CoreSet(0, (0,)),), ())


def test_this_machine_is_divided_without_sharing():
    division = divide(Topology())
    measuring = [core for one in division.measuring for core in one.cores]
    assert measuring and not set(measuring) & set(division.building)


@pytest.mark.parametrize(
    ("options", "why", "way"),
    [
        ({"cores": "0-9"}, "may not use cores 8-9", "it may use 0-7"),
        ({"cores": "none"}, "no list of cores", "0-3,8"),
        ({"measure": ["0-1", "1"]}, "both would use core 1", "apart"),
        ({"measure": ["0", "4"]}, "both would use core 0", "apart"),
        ({"measure": ["1"], "build": "4-5"}, "cores 5 measure", "--build 4"),
        ({"measure": ["6"], "cores": "0-3"}, "cores 6 are not among", "--cores gives 0-3"),
        ({"measure": ["all"], "build": "all"}, "both take all cores", "--measure 7"),
        ({"measure": ["all", "0"]}, "both take all cores", "--measure 7"),
        ({"measure": ["all"], "build": "0-3"}, "no physical core is left", "fewer cores"),
    ],
)
def test_wrong_divisions_say_why_and_the_way_out(server, options, why, way):
    with pytest.raises(ArgumentError) as error:
        divide(server(), **options)
    assert why in str(error.value) and way in str(error.value).splitlines()[-1]
