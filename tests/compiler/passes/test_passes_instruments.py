"""Instruments: what they see and print, their order, what happens when one fails."""

import io

import pytest

import whet
from whet import instrument, te, tir
from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.passes import PASSES, PassContext


def tailed():
    a = te.placeholder((10,), name="A")
    c = te.compute((10,), lambda i: a[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].unroll(inner)
    return s, [a, c]


def lower_with(*instruments, **options):
    with PassContext(instruments=list(instruments), **options):
        return whet.lower(*tailed())


def test_the_hooks_come_in_order():
    seen = []

    @instrument.pass_instrument
    class Log:
        def __init__(self, name):
            self.name = name

        def enter_pass_ctx(self):
            seen.append((self.name, "enter"))

        def exit_pass_ctx(self):
            seen.append((self.name, "exit"))

        def should_run(self, mod, info):
            return info.name == "tir.Simplify"

        def run_before_pass(self, mod, info):
            assert isinstance(mod, tir.IRModule)
            seen.append((self.name, "before"))

        def run_after_pass(self, mod, info):
            seen.append((self.name, "after"))

    assert isinstance(Log("x"), instrument.PassInstrument)
    with PassContext(instruments=[Log("a"), Log("b")]):
        tir.transform.Simplify()(tir.IRModule({}))
        tir.transform.RemoveNoOp()(tir.IRModule({}))
    wanted = [(n, what) for what in ("enter", "before", "after", "exit") for n in "ab"]
    assert seen == wanted


def test_what_an_instrument_is():
    with pytest.raises(ArgumentError, match="it has no method that is called"):
        instrument.pass_instrument(type("Empty", (), {}))
    with pytest.raises(ArgumentError, match="is no class"):
        instrument.pass_instrument(3)

    @instrument.pass_instrument()
    class Mine(instrument.PassInstrument):
        """Mine."""

    assert Mine.__doc__ == "Mine."


class Recorder(instrument.PassInstrument):
    def __init__(self, seen, name, fail=""):
        self.seen, self.name, self.fail = seen, name, fail

    def _do(self, what):
        self.seen.append(f"{self.name} {what}")
        if self.fail == what:
            raise ZeroDivisionError(what)

    def enter_pass_ctx(self):
        self._do("enter")

    def exit_pass_ctx(self):
        self._do("exit")

    def run_before_pass(self, mod, info):
        self._do("before")

    def run_after_pass(self, mod, info):
        self._do("after")


def test_one_that_fails_on_entering_disables_all_and_those_inside_leave():
    seen = []
    parts = [Recorder(seen, "a"), Recorder(seen, "b", "enter"), Recorder(seen, "c")]
    context = PassContext(instruments=parts)
    outside = PassContext.current()
    with pytest.raises(ZeroDivisionError):
        context.__enter__()
    assert seen == ["a enter", "b enter", "a exit"] and context.instruments == []
    assert PassContext.current() is outside


def test_one_that_fails_on_leaving_keeps_the_others_from_leaving():
    seen = []
    context = PassContext(
        instruments=[Recorder(seen, "a"), Recorder(seen, "b", "exit"), Recorder(seen, "c")]
    )
    outside = PassContext.current()
    with pytest.raises(ZeroDivisionError), context:
        pass
    assert seen[3:] == ["a exit", "b exit"] and context.instruments == []
    assert PassContext.current() is outside


@pytest.mark.parametrize("when", ["before", "after"])
def test_one_that_fails_around_a_pass_ends_it_and_all_leave(when):
    seen = []
    with pytest.raises(ZeroDivisionError):
        lower_with(Recorder(seen, "a", when), Recorder(seen, "b"))
    assert seen[-2:] == ["a exit", "b exit"]
    assert seen.count("a before") == 1


def test_instruments_may_be_exchanged():
    seen = []
    with PassContext(instruments=[Recorder(seen, "a")]) as context:
        context.override_instruments([Recorder(seen, "b")])
        tir.transform.Simplify()(tir.IRModule({}))
        with pytest.raises(ArgumentError, match="is no instrument"):
            context.override_instruments([3])
    assert seen == ["a enter", "a exit", "b enter", "b before", "b after", "b exit"]


def test_times_are_nested_and_stay():
    timing = instrument.PassTimingInstrument()
    passes = whet.transform.Sequential(
        [tir.transform.Simplify(), tir.transform.RemoveNoOp()], name="both"
    )
    with PassContext(instruments=[timing]):
        mod = whet.lower(*tailed())
        passes(mod)
    assert [p.name for p in timing.profiles[:-1]] == [f"tir.{p.name}" for p in PASSES]
    both = timing.profiles[-1]
    assert [c.name for c in both.children] == ["tir.Simplify", "tir.RemoveNoOp"]
    assert both.seconds >= sum(c.seconds for c in both.children) > 0
    assert timing.seconds()["tir.Simplify"] >= both.children[0].seconds
    text = timing.render()
    assert "tir.LoopPartition" in text and "    tir.Simplify" in text
    assert text.splitlines()[-1].endswith("100.0%  all")
    with PassContext(instruments=[timing]):
        pass
    assert timing.render() == "no pass has run"


def test_a_pass_that_fails_leaves_the_times_right():
    @tir.transform.prim_func_pass(opt_level=0, name="broken")
    def broken(func, mod, ctx):
        raise KeyError("x")

    timing = instrument.PassTimingInstrument()
    mod = whet.lower(*tailed())
    with PassContext(instruments=[timing]):
        with pytest.raises(KeyError):
            whet.transform.Sequential([broken])(mod)
        tir.transform.Simplify()(mod)
    assert timing.profiles[0].name == "sequential"
    assert "tir.Simplify" in timing.render()


def test_before_and_after_are_printed():
    before, after = io.StringIO(), io.StringIO()
    lower_with(instrument.PrintBeforeAll(before), instrument.PrintAfterAll(after))
    assert before.getvalue().count("# before tir.") == len(PASSES)
    assert "# before tir.Simplify\ndef main(A: float32[10]" in before.getvalue()
    assert after.getvalue().count("# after tir.") == len(PASSES)


def test_printing_goes_to_standard_output_by_default(capsys):
    lower_with(instrument.PrintAfterAll())
    assert "# after tir.RemoveNoOp" in capsys.readouterr().out


def test_only_what_changed_is_printed(golden):
    out = io.StringIO()
    lower_with(instrument.PrintChanged(out, times=False))
    golden("instrument_print_changed", out.getvalue())
    timed = io.StringIO()
    lower_with(instrument.PrintChanged(timed))
    assert " ms)\n" in timed.getvalue()


def test_files_are_numbered(tmp_path):
    folder = tmp_path / "passes"
    mod = lower_with(instrument.DumpToFolder(folder))
    names = sorted(p.name for p in folder.iterdir())
    assert names[0] == "000_input.txt"
    at = [p.name for p in PASSES].index("LoopPartition") + 1
    assert f"{at:03d}_tir.LoopPartition.txt" in names
    assert "013_tir.SimplifyLoops.txt" not in names  # it changed nothing
    assert mod.script() in (folder / names[-1]).read_text()


# verification


def broken_by(change, name="breaks"):
    """VerifyEach's report on a custom pass that makes ``change`` to a function's body."""

    @tir.transform.prim_func_pass(opt_level=0, name=name)
    def breaks(func, mod, ctx):
        return func.with_body(change(func.body))

    entries = {"tir.add_lower_pass": [(1, breaks)]}
    with pytest.raises(LowerError) as caught:
        lower_with(instrument.VerifyEach(), config=entries)
    assert f"the pass {name}: it is broken afterwards: main: " in str(caught.value)
    return str(caught.value)


def rewriting(kind, change):
    return lambda body: tir.Rewriter({kind: change})(body)


def test_a_pass_that_uses_an_undefined_variable_is_named():
    lost = tir.Var("lost", "int32")
    said = broken_by(
        rewriting(tir.BufferStore, lambda n: tir.BufferStore(n.buffer, n.value, (lost,)))
    )
    assert "lost is used where it is not defined" in said


def test_a_pass_that_uses_an_undefined_buffer_is_named():
    other = tir.decl_buffer((10,), "float32", "T")
    said = broken_by(
        rewriting(tir.BufferStore, lambda n: tir.BufferStore(other, n.value, n.indices))
    )
    assert "the buffer T is used where it is not defined" in said


def test_a_pass_that_defines_a_variable_twice_is_named():
    said = broken_by(lambda body: tir.SeqStmt((body, body)))
    assert "is defined twice" in said


def test_a_pass_that_mixes_types_is_named():
    said = broken_by(
        rewriting(
            tir.BufferStore,
            lambda n: tir.BufferStore(n.buffer, tir.cast("int32", n.value), n.indices),
        )
    )
    assert "C: a int32 in a buffer of float32" in said
    said = broken_by(rewriting(tir.FloatImm, lambda n: tir.IntImm("int64", 1)), name="half")
    assert "operands of float32 and int64" in said


def test_broken_input_is_not_blamed_on_the_first_pass():
    lost = tir.decl_buffer((10,), "float32", "T")
    i = tir.Var("i", "int32")
    func = tir.PrimFunc((), tir.For(i, tir.const(0), tir.const(3), "serial", lost.vstore([i], 1.0)))
    said = r"what tir\.Simplify is given: main: the buffer T"
    context = PassContext(instruments=[instrument.VerifyEach()])
    with pytest.raises(LowerError, match=said), context:
        tir.transform.Simplify()(tir.IRModule({"main": func}))


def test_all_passes_keep_a_program_right():
    assert lower_with(instrument.VerifyEach()).script() == whet.lower(*tailed()).script()
