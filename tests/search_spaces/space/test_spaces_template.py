"""Templates: the config in force, spaces, and what a template may not do."""

import threading

import pytest
from tuned_matmul import matmul, seen

from whet.compiler import te
from whet.compiler.errors import SpaceError
from whet.compiler.target import Target
from whet.search_spaces import (
    ConfigSpace,
    Workload,
    get_config,
    instantiate,
    space_of,
    template,
    using_config,
    using_resolver,
)


def steps(s):
    return [str(step) for step in s.trace.steps]


def workload(*args):
    return matmul.workload(*args)


# -- spaces and instances


def test_the_space_of_a_workload():
    space = space_of(workload(64, 48, 1024))
    assert space.cardinalities == (7, 7, 2, 6, 2)
    assert space.flop == 2 * 64 * 48 * 1024
    assert space is space_of(Workload("tests/matmul", (64, 48, 1024)))
    assert space.default["tile_j"].size == (64, 16)
    with pytest.raises(SpaceError, match="complete"):
        space.define_knob("late", [1])


def test_the_fingerprint_follows_the_compute_graph():
    prints = {space_of(workload(*args)).fingerprint for args in [(64, 48, 64), (64, 96, 64)]}
    assert len(prints) == 2  # the knobs are the same
    assert space_of(workload(64, 48, 64)).knobs["tile_i"].choices == (
        space_of(workload(64, 96, 64)).knobs["tile_i"].choices
    )


def test_defaults_of_the_signature_are_bound_in():
    assert workload(8, 8, 8) == workload(8, 8, 8, "float32") != workload(8, 8, 8, "float64")


def test_every_config_instantiates_its_own_schedule():
    work = workload(8, 3, 8)
    space = space_of(work)
    texts = set()
    for config in space:
        s, args = instantiate(work, config)
        assert [t.name for t in args] == ["A", "B", "C"]
        texts.add("\n".join(steps(s)))
    # "unroll" is not used, so that configs come in pairs of one schedule.
    assert len(texts) == space.size / 2


def test_outside_everything_a_call_takes_the_default():
    seen.clear()
    s, _ = matmul(64, 48, 64)
    default = space_of(workload(64, 48, 64)).default
    assert seen[-1] == (default["tile_i"].size, False)
    assert steps(s) == steps(instantiate(workload(64, 48, 64), default)[0])
    assert steps(s) == steps(instantiate(workload(64, 48, 64), None)[0])


def test_using_config_and_its_end():
    config = space_of(workload(64, 48, 64))[77]
    with using_config(config):
        matmul(64, 48, 64)
        assert seen[-1] == (config["tile_i"].size, config["unroll"].val)
    matmul(64, 48, 64)
    assert seen[-1][0] != config["tile_i"].size


def test_a_resolver_is_asked_and_may_know_nothing():
    asked = []
    config = space_of(workload(64, 48, 64))[99]

    def resolver(work):
        asked.append(work)
        return config if work.args[0] == 64 else None

    with using_resolver(resolver):
        matmul(64, 48, 64)
        assert seen[-1][0] == config["tile_i"].size
        matmul(32, 48, 64)
        assert seen[-1][0] == space_of(workload(32, 48, 64)).default["tile_i"].size
        with using_config(space_of(workload(64, 48, 64))[0]):  # the explicit one wins
            matmul(64, 48, 64)
            assert seen[-1][0] == (64, 1)
    assert [work.args[0] for work in asked] == [64, 32]


def test_a_config_of_another_workload_is_refused():
    with (
        using_config(space_of(workload(64, 48, 64)).default),
        pytest.raises(SpaceError, match="split 'tile_i'"),
    ):
        matmul(60, 48, 60)


def test_the_config_in_force_is_not_for_other_threads():
    config = space_of(workload(64, 48, 64))[0]
    found = []
    with using_config(config):
        thread = threading.Thread(target=lambda: found.append(matmul(64, 48, 64)))
        thread.start()
        thread.join()
    assert steps(found[0][0]) == steps(matmul(64, 48, 64)[0])


def test_get_config_outside_a_template():
    cfg = get_config()
    cfg.define_split("t", 64, num_outputs=2)
    assert cfg["t"].size == (4, 16)
    space = ConfigSpace()
    space.define_split("t", 64, num_outputs=2)
    with using_config(space.from_choices({"t": (2, 32)})):
        cfg = get_config()
        cfg.define_split("t", 64, num_outputs=2)
        assert cfg["t"].size == (2, 32)
        with pytest.raises(SpaceError, match="not one of"):
            get_config().define_split("t", 65, num_outputs=2)


def test_a_template_within_a_template_runs_under_its_own_default():
    @template("tests/outer")
    def outer(n):
        cfg = get_config()
        cfg.define_knob("mine", [1, 2])
        s, args = matmul(n, n, n)
        return s, args

    space = space_of(Workload("tests/outer", (64,)))
    assert list(space.knobs) == ["mine"]
    with using_config(space[1]):
        outer(64)
    assert seen[-1][0] == (4, 16)


def test_the_space_follows_the_target_in_force():
    @template("tests/vectors")
    def vectors(n):
        target = Target.current()
        get_config().define_knob("width", [0 if target is None else target.vector_bytes])
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
        return te.create_schedule(B.op), [A, B]

    work = Workload("tests/vectors", (8,))
    prints = [space_of(work).fingerprint]
    for width in (16, 32):
        with Target(f"llvm -vector_bytes={width}"):
            assert space_of(work)["width"].val == width
            prints.append(space_of(work).fingerprint)
    assert len(set(prints)) == 3


# -- bad templates


def make(name, define):
    """A template of two knobs' room, in which ``define(cfg)`` may go wrong."""

    @template(name)
    def made(n):
        cfg = get_config()
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
        cfg.define_knob("first", [0, 1])
        define(cfg, n)
        return te.create_schedule(B.op), [A, B]

    return made


def failing(name, define, index=-1):
    work = make(name, define).workload(16)
    space = space_of(work)
    instantiate(work, space[0])
    return lambda: instantiate(work, space[index % space.size])


def test_a_template_that_raises_for_some_configs_surfaces_the_error():
    def define(cfg, n):
        if cfg["first"].val == 1:
            raise ZeroDivisionError("this one is impossible")

    run = failing("tests/raises", define)
    with pytest.raises(ZeroDivisionError, match="impossible") as caught:
        run()
    assert any("first=1" in note for note in caught.value.__notes__)


def test_a_template_that_raises_for_its_default_config():
    def define(cfg, n):
        raise ValueError(f"{n} lanes are too many")

    work = make("tests/raises_always", define).workload(16)
    with pytest.raises(SpaceError, match=r"^space of tests/raises_always\(16\): ") as caught:
        space_of(work)
    said = str(caught.value)
    assert "raised ValueError: 16 lanes are too many for its default config" in said
    assert "\n  give another default=, or make the template raise only for configs that" in said
    assert isinstance(caught.value.__cause__, ValueError)

    @template("tests/raises_first")
    def raises_first(n):
        raise KeyError

    with pytest.raises(SpaceError, match="raised KeyError for its default config\n  no knob was"):
        raises_first(4)


def test_another_candidate_list_than_when_collected():
    run = failing("tests/list", lambda cfg, n: cfg.define_knob("k", [1, 2 + cfg["first"].val]))
    with pytest.raises(SpaceError, match=r"other choices(.|\n)*only then: 2\n *only now: 3"):
        run()


def test_another_filter_than_when_collected():
    def define(cfg, n):
        most = 16 >> cfg["first"].val
        cfg.define_split("t", n, num_outputs=2, filter=lambda e: e.size[-1] <= most)

    run = failing("tests/filter", define, index=5)
    with pytest.raises(SpaceError, match=r"other choices(.|\n)*only then: \(1, 16\)"):
        run()


def test_a_filter_that_looks_elsewhere_is_looked_at_again():
    allowed = [1, 2, 4]
    run = failing(
        "tests/mutable",
        lambda cfg, n: cfg.define_split(
            "t", n, num_outputs=2, filter=lambda e: e.size[-1] in allowed
        ),
    )
    run()
    allowed.remove(4)
    with pytest.raises(SpaceError, match="other choices"):
        run()


def test_the_same_list_written_in_another_way_is_fine():
    def define(cfg, n):
        if cfg["first"].val:
            cfg.define_split("t", n, "power2", num_outputs=2)
        else:
            cfg.define_split("t", n, num_outputs=2)

    s, _ = failing("tests/same", define)()
    assert s is not None


def test_a_knob_only_some_configs_define():
    def more(cfg, n):
        if cfg["first"].val:
            cfg.define_knob("extra", [1])

    def fewer(cfg, n):
        if not cfg["first"].val:
            cfg.define_knob("extra", [1])

    with pytest.raises(SpaceError, match="did not define this knob when its space was collected"):
        failing("tests/more", more)()
    with pytest.raises(SpaceError, match="did not define the knobs extra"):
        failing("tests/fewer", fewer)()


def test_a_knob_is_used_before_it_is_defined():
    with pytest.raises(SpaceError, match="no such knob is defined yet"):
        space_of(make("tests/early", lambda cfg, n: cfg["later"]).workload(4))


def test_a_knob_defined_twice():
    with pytest.raises(SpaceError, match="of this name already") as caught:
        space_of(make("tests/twice", lambda c, n: c.define_knob("first", [1])).workload(4))
    assert any("was collected" in note for note in caught.value.__notes__)


def test_a_template_that_returns_something_else():
    @template("tests/nothing")
    def nothing(n):
        return None

    with pytest.raises(SpaceError, match="returned a NoneType"):
        nothing(4)
