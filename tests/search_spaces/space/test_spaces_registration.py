"""Templates: their names, their arguments, and how they are registered and replaced."""

import importlib
import re
import sys
import textwrap

import pytest
from tuned_matmul import matmul

from whet.compiler.errors import ArgumentError, SpaceError
from whet.search_spaces import Workload, get_template, list_templates, space_of, template


def test_a_template_keeps_its_name_and_docstring():
    assert matmul.__name__ == "matmul"
    assert matmul.__doc__ == "A matmul to tune."
    assert get_template("tests/matmul") is matmul
    assert {"tests/matmul", "matmul", "conv2d_nchw"} <= set(list_templates())
    assert list_templates() == sorted(list_templates())


@pytest.mark.parametrize(
    ("args", "options", "text"),
    [
        ((8, 8), {"M": 8}, "keyword arguments are not taken: M"),
        ((8, 8), {}, r"missing a required argument: 'M'(.|\n)*tests/matmul\(N, K, M"),
        ((8, 8, 8, "float32", 1), {}, "too many positional arguments"),
        ((8, 8, object()), {}, "argument 2 is a object"),
        ((8, 8, {"M": 8}), {}, "argument 2 is a dict"),
    ],
)
def test_bad_arguments(args, options, text):
    with pytest.raises(SpaceError, match=text):
        matmul(*args, **options)


def test_canonical_arguments_make_one_workload_of_several_spellings():
    ran = []

    @template("tests/canonical", canonical=lambda args: (args[0], tuple(sorted(args[1]))))
    def canonical(n, axes=(1, 0)):
        ran.append(axes)
        return matmul(n, n, n)

    work = canonical.workload(8)
    assert work.args == (8, (0, 1)) == canonical.workload(8, [0, 1]).args
    assert space_of(Workload("tests/canonical", (8, (1, 0)))) is space_of(work)
    canonical(8, (1, 0))
    assert set(ran) == {(0, 1)}


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda args: args[0], "returned a int"),
        (lambda args: (*args, 1), "returned 2 arguments for 1"),
        (lambda args: (object(),), "argument 0 is a object, which cannot be stored as JSON"),
        (lambda args: (args[0] + 1,), "something else of that"),
        (lambda args: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_a_canonical_that_is_wrong(function, said):
    @template("tests/not_canonical", canonical=function)
    def not_canonical(n):
        return matmul(n, n, n)

    with pytest.raises(SpaceError, match=said):
        not_canonical.workload(8)


def test_canonical_must_be_a_function():
    with pytest.raises(SpaceError, match="canonical=3 is not a function"):
        template("tests/canonical_3", canonical=3)


def test_a_convolution_is_one_workload_however_its_pairs_are_written():
    conv = get_template("conv2d_nchw")
    sizes = (1, 4, 9, 8, 8, 3, 3)
    forms = [(1, 0), ((1, 1), (0, 0)), ([1, 1], (0, 0, 0, 0)), (1,), (), (1, 0, 1)]
    assert len({conv.workload(*sizes, *form).key for form in forms}) == 1
    rest = ((1, 1), 1, "float32", (), False)
    assert conv.workload(*sizes).args == (*sizes, (1, 1), (0, 0), *rest)
    assert conv.workload(*sizes, 1, (1, 0)) != conv.workload(*sizes, 1, (0, 1))
    with pytest.raises(ArgumentError, match=r"strides is '2'; it must be an int"):
        conv.workload(*sizes, "2")


def test_unknown_template():
    with pytest.raises(SpaceError, match="did you mean 'tests/matmul'") as caught:
        get_template("tests/matmu")
    assert "conv2d_nchw" in str(caught.value)
    with pytest.raises(SpaceError, match="none of this name"):
        space_of(Workload("zzz", ()))


@pytest.mark.parametrize(
    ("name", "func", "text"),
    [
        ("tests/kwonly", lambda n, *, m: None, "these are not: m"),
        ("tests/kwargs", lambda **options: None, "these are not: options"),
        ("tests/3", 3, "is not a function"),
        ("", lambda n: None, "needs a name"),
        (lambda n: None, lambda n: None, "needs a name"),
        ("matmul", lambda n: None, "built-in"),
        ("tests/matmul", lambda n: None, "another function has registered this name"),
    ],
)
def test_bad_registration(name, func, text):
    with pytest.raises(SpaceError, match=text):
        template(name)(func)


def test_bad_version():
    with pytest.raises(SpaceError, match="must be an int"):
        template("tests/version", version="1")


SOURCE = """
    from whet.search_spaces import template

    @template("tests/reloaded")
    def f(n):
        return {value}
"""


def test_reload_and_edit_replace_but_a_second_definition_does_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "reloaded_template.py"
    text = textwrap.dedent(SOURCE)
    path.write_text(text.format(value=1))
    module = importlib.import_module("reloaded_template")
    first = module.f
    importlib.reload(module)
    assert get_template("tests/reloaded") is module.f is not first
    path.write_text(text.format(value="2  # edited"))
    importlib.reload(module)
    assert get_template("tests/reloaded").func(0) == 2
    path.write_text(text.format(value=1) + text.format(value=3))
    with pytest.raises(SpaceError, match=re.escape("reloaded_template.f")):
        importlib.reload(module)
