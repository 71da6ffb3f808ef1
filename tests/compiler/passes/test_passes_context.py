"""PassContext: configuration checked, passes disabled and required."""

import pytest
from pass_checks import vector_add

import whet
from whet import te, tir
from whet.compiler.errors import ArgumentError
from whet.compiler.passes import PASSES, PassContext
from whet.compiler.passes.names import PASS_NAMES
from whet.tvm.absent import ABSENT


def ran(**options):
    """The names of the passes that run on a vector addition."""
    seen = []

    @whet.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod, info):
            seen.append(info.name.removeprefix("tir."))

    with PassContext(instruments=[Names()], **options):
        whet.lower(*vector_add())
    return seen


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"tir.disable_vectorise": True}, "did you mean 'tir.disable_vectorize'"),
        ({"nonsense": 1}, "keys: tir.add_lower_pass"),
        ({"tir.use_async_copy": True}, "no meaning here: copies into shared memory go through"),
        ({"tir.usmp.enable": True}, "no meaning here: microcontrollers"),
        ({"tir.disable_vectorize": "yes"}, "the value is a str, not a bool"),
        ({"tir.disable_vectorize": 2}, "the value is a int, not a bool"),
        ({"tir.noalias": "no"}, "the value is a str, not a bool"),
        ({"tir.UnrollLoop": 16}, "the value is a int, not a dictionary"),
        ({"tir.UnrollLoop": {"auto_max_steps": 16}}, "did you mean 'auto_max_step'"),
        ({"tir.UnrollLoop": {"auto_max_step": True}}, "the value is a bool, not a int"),
        ({"tir.UnrollLoop": {"auto_max_step": 1.5}}, "the value is a float, not a int"),
        ({"tir.UnrollLoop": {"auto_max_step": -1}}, "it is less than 0"),
        ({"tir.UnrollLoop": {"auto_max_depth": -2}}, "it is less than 0"),
        ({"tir.use_async_copy": 2}, "no meaning here: copies into shared memory go through"),
        ({"tir.enable_debug": True}, "there is no debugging information of the loop IR"),
        ({"tir.vtcm_capacity": 0}, "no meaning here: Hexagon"),
        (
            {"tir.Simplify": {"propagate_knowns_to_prove_conditional": True}},
            "no meaning here: values in buffers are not followed",
        ),
        ({"tir.add_lower_pass": [3]}, "3 is not a pair"),
        ({"tir.add_lower_pass": [(-1, tir.transform.Simplify())]}, "there is no phase -1"),
        ({"tir.add_lower_pass": [(1, len)]}, "a builtin_function_or_method is no pass"),
    ],
)
def test_a_wrong_configuration_is_refused(config, words):
    with pytest.raises(ArgumentError) as caught:
        PassContext(config=config)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"disabled_pass": ["LoopPartitoin"]}, "did you mean 'LoopPartition'"),
        ({"disabled_pass": ["Foo"]}, "there is no such pass"),
        ({"required_pass": ["tir.TextureFlatten"]}, "there is no texture memory"),
        ({"instruments": ["timing"]}, "is no instrument"),
        ({"opt_level": {"tir.noalias": True}}, "the level is a number, not a dict"),
        ({"opt_level": -1}, "a level is not negative"),
        ({"required_pass": ["FoldConstant"]}, "there is no Relay"),
        ({"required_pass": ["tir.Simplify"], "disabled_pass": "Simplify"}, "a pass cannot be both"),
        ({"trace": []}, "there is no MetaSchedule"),
    ],
)
def test_wrong_names_and_instruments_are_refused(options, words):
    with pytest.raises(ArgumentError) as caught:
        PassContext(**options)
    assert words in str(caught.value)


def test_the_parameters_are_tvms_in_order():
    context = PassContext(3, ["tir.Simplify"], ["tir.LoopPartition"], [], {"tir.noalias": True})
    assert context.opt_level == 3 and context.config["tir.noalias"] is True
    assert context.required_pass == ("Simplify",) and context.disabled_pass == ("LoopPartition",)


def test_current_is_the_innermost_and_the_default_outside():
    outside = PassContext.current()
    assert outside is PassContext.current() and outside.opt_level == 2
    with PassContext(opt_level=1) as outer:
        assert PassContext.current() is outer
        with PassContext() as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current() is outside


def test_every_key_is_listed_with_type_default_and_meaning():
    configs = PassContext.list_configs()
    for key in ("tir.UnrollLoop", "tir.LoopPartition", "tir.Simplify", "tir.disable_assert"):
        assert set(configs[key]) == {"type", "default", "meaning"} and configs[key]["meaning"]
    assert configs["tir.UnrollLoop"]["default"]["auto_max_depth"] == 8
    assert "auto_max_step" in configs["tir.UnrollLoop"]["meaning"]


def test_inner_keys_that_are_not_given_have_their_defaults():
    context = PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}})
    assert context.config["tir.UnrollLoop"] == {
        "auto_max_step": 16,
        "auto_max_depth": 8,
        "auto_max_extent": 0,
        "explicit_unroll": False,
    }


@pytest.mark.parametrize("name", ["LoopPartition", "tir.LoopPartition"])
def test_a_disabled_pass_is_left_out(name):
    assert "LoopPartition" in ran()
    assert "LoopPartition" not in ran(disabled_pass=[name])


def test_passes_that_are_not_here_may_be_disabled():
    assert ran(disabled_pass=["tir.TextureFlatten", "tir.BF16Legalize"]) == ran()
    assert ran(disabled_pass=["FoldConstant", "relay.AlterOpLayout", "FuseOps"]) == ran()
    assert ABSENT["tir.transform"].keys().isdisjoint(PASS_NAMES)


def test_what_happens_anyway_may_be_asked_for():
    off = dict.fromkeys(
        ("tir.use_async_copy", "tir.usmp.enable", "tir.detect_global_barrier", "tir.enable_debug"),
        False,
    )
    context = PassContext(config=off, trace=None, disabled_pass=["tir.TextureFlatten"])
    assert context.config == PassContext().config
    assert ran(config=off) == ran()


def test_a_required_pass_runs_against_the_instruments():
    @whet.instrument.pass_instrument
    class Nothing:
        def should_run(self, mod, info):
            return False

    with PassContext(instruments=[Nothing()]):
        assert "C[i_outer * 4 + i_inner]" in str(whet.lower(*vector_add()))
    with PassContext(instruments=[Nothing()], required_pass=["VectorizeLoop"]):
        assert "ramp" in str(whet.lower(*vector_add()))


def test_a_required_pass_runs_though_it_is_off_by_default():
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: te.exp(a[i] * 2.0) + te.exp(a[i] * 2.0), name="C")
    s = te.create_schedule(c.op)
    assert "cse_v1" not in str(whet.lower(s, [a, c]))
    with PassContext(required_pass=["tir.CommonSubexprElimTIR"]):
        assert "cse_v1 = exp(" in str(whet.lower(s, [a, c]))


def test_simple_mode_leaves_out_loop_partition_alone():
    assert [p.name for p in PASSES if not p.in_simple_mode] == ["LoopPartition"]
