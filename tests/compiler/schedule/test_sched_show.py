"""The drawing of a schedule: every stage, loop and attachment is in it, and it is XML."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import itertools
from xml.etree import ElementTree

import pytest
from sched_check import replays

from whet.compiler import te
from whet.compiler.errors import ScheduleError

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture):
    return ElementTree.fromstring(picture.svg)


def groups(root, kind):
    return [g for g in root.iter(f"{SVG}g") if g.get("class") == kind]


def texts(root):
    return [t.text for t in root.iter(f"{SVG}text")]


def scheduled():
    a = te.placeholder((37, 24), name="A")
    k = te.reduce_axis((0, 24), name="k")
    t = te.compute((37, 24), lambda i, j: a[i, j] * 2.0, name="T")
    w = te.compute((37, 24), lambda i, j: t[i, j] + 1.0, name="W")
    c = te.compute((37,), lambda i: te.sum(w[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    o, i = s[c].split(c.op.axis[0], factor=8)
    s[c].parallel(o)
    s[c].bind(i, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[c], i)
    ko, ki = s[local].split(k, factor=4)
    s[local].unroll(ki)
    s[local].pragma(ko, "unroll_explicit", True)
    s[w].compute_at(s[local], ko)
    s[w].vectorize(w.op.axis[1])
    s[t].compute_inline()
    return s, a, t, w, c, local


def test_every_stage_loop_and_attachment_is_drawn():
    s, *_ = scheduled()
    root = parsed(s.show())
    stages = {g.get("data-stage"): g for g in groups(root, "stage")}
    assert list(stages) == ["A", "T", "C", "C.local", "W"]
    assert {n: g.get("data-kind") for n, g in stages.items()} == {
        "A": "input", "T": "inlined", "C": "root", "C.local": "attached", "W": "attached",
    }  # fmt: skip
    at = {
        n: (g.get("data-attached-to"), g.get("data-attached-at"))
        for n, g in stages.items()
        if g.get("data-attached-to")
    }
    assert at == {"C.local": ("C", "i.inner"), "W": ("C.local", "k.outer")}
    loops = [
        (g.get("data-axis"), g.get("data-extent"), g.get("data-kind"), g.get("data-thread"))
        for g in groups(root, "loop")
    ]
    assert loops == [
        ("i.outer", "5", "parallel", ""), ("i.inner", "8", "thread_binding", "threadIdx.x"),
        ("i.c", "1", "serial", ""), ("k.outer", "6", "serial", ""), ("i", "1", "serial", ""),
        ("j", "4", "vectorized", ""), ("k.inner", "4", "unrolled", ""),
    ]  # fmt: skip
    replays(s)


def test_what_is_attached_is_inside_its_loop():
    s, *_ = scheduled()
    root = parsed(s.show())
    for stage in groups(root, "stage"):
        loop = stage.get("data-attached-at")
        if loop is None:
            continue
        (holder,) = [g for g in groups(root, "loop") if any(x is stage for x in g)]
        assert holder.get("data-axis") == loop
        parent = [g for g in groups(root, "stage") if holder in g.iter()][-1]
        assert parent.get("data-stage") == stage.get("data-attached-to")


def test_the_words_say_how_a_loop_runs():
    s, *_ = scheduled()
    said = texts(parsed(s.show()))
    assert "for i.outer in 5   parallel" in said
    assert "for i.inner in 8   threadIdx.x" in said
    assert "for k.outer in 6   reduction · unroll_explicit" in said
    assert "for k.inner in 4   unrolled · reduction" in said
    assert "C[i] = C.local[i]" in said
    assert any(t.startswith("float32[37] · local · reads W") for t in said)


def test_nothing_overlaps_and_nothing_hangs_over():
    s, *_ = scheduled()
    root = parsed(s.show())
    width, height = (float(x) for x in root.get("viewBox").split()[2:])

    def box(g):
        r = g.find(f"{SVG}rect")
        x, y, w, h = (float(r.get(k)) for k in ("x", "y", "width", "height"))
        return x, y, x + w, y + h

    for g in (*groups(root, "stage"), *groups(root, "loop")):
        x0, y0, x1, y1 = box(g)
        assert 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height
        for t in g.findall(f"{SVG}text"):
            assert float(t.get("x")) + 6.5 * len(t.text) <= x1 + 7, t.text
    rows = sorted(box(g)[1::2] for g in groups(root, "loop"))
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(rows))
    for stage in groups(root, "stage"):
        x0, y0, x1, y1 = box(stage)
        for g in stage.iter(f"{SVG}g"):
            a0, b0, a1, b1 = box(g)
            assert x0 <= a0 and y0 <= b0 and a1 <= x1 and b1 <= y1


def test_names_are_escaped():
    a = te.placeholder((4,), name='<A & "B">')
    b = te.compute((4,), lambda i: a[i] + 1.0, name="</svg><script>alert(1)</script>\x00")
    s = te.create_schedule(b.op)
    picture = s.show()
    assert "<script>" not in picture.html and "<script>" not in picture.svg
    names = [g.get("data-stage") for g in groups(parsed(picture), "stage")]
    assert names == ['<A & "B">', "</svg><script>alert(1)</script>\ufffd"]
    ElementTree.fromstring(picture.html.split("\n", 1)[1])  # the page, too


def test_pictures_are_written_and_shown_in_notebooks(tmp_path):
    s, *_ = scheduled()
    picture = s.show(str(tmp_path / "loops.html"))
    assert (tmp_path / "loops.html").read_text(encoding="utf-8") == picture.html
    picture.save(tmp_path / "loops.svg")
    assert (tmp_path / "loops.svg").read_text(encoding="utf-8") == picture.svg
    assert picture._repr_svg_() == picture.svg and picture.svg in picture._repr_html_()
    assert picture.svg in picture.html and picture.html.startswith("<!DOCTYPE html>")
    assert "http://www.w3.org/2000/svg" in picture.html
    assert picture.html.count("http") == 1 and "src=" not in picture.html  # no network


def test_pictures_that_cannot_be_written(tmp_path):
    s, *_ = scheduled()
    with pytest.raises(ScheduleError, match=r"a picture is an \.html or an \.svg file"):
        s.show(str(tmp_path / "loops.png"))
    with pytest.raises(ScheduleError, match="No such file or directory"):
        s.show(str(tmp_path / "nowhere" / "loops.html"))


def test_a_schedule_that_cannot_be_lowered_is_drawn():
    s, a, t, w, c, local = scheduled()
    s[local].split(s[local].leaf_iter_vars[0], factor=2)
    s[c].compute_root()
    u = te.compute((37,), lambda i: c[i] + 1.0, name="U")
    s = te.create_schedule(u.op)
    s[c].compute_at(s[u], u.op.axis[0])
    s[u].leaf_iter_vars.clear()  # the loop that C was attached to is gone
    names = [g.get("data-stage") for g in groups(parsed(s.show()), "stage")]
    assert names == ["A", "T", "W", "C", "U"]


def test_extern_stages_and_symbolic_sizes_are_drawn():
    n = te.size_var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.extern(
        (n, 4), [a], lambda ins, outs: te_extern_body(ins, outs), name="E", dtype="float32"
    )
    s = te.create_schedule(b.op)
    root = parsed(s.show())
    assert "a statement as a whole" in texts(root)
    c = te.compute((n,), lambda i: a[i, 0], name="C")
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=8)
    (outer, inner) = groups(parsed(s.show()), "loop")
    assert outer.get("data-extent") == "(n + 7) // 8" and inner.get("data-extent") == "8"


def te_extern_body(ins, outs):
    from whet.compiler import tir

    return tir.call_packed("nobody.calls.this", ins[0], outs[0])
