"""Arguments that make no sense are refused before a worker starts or a log is made."""

from __future__ import annotations

import pytest
from autotune_pools import Expecting, Recorder
from autotune_synthetic import small_cost

from whet.autotune import tune
from whet.autotune.samplers import SAMPLERS, has_opinion
from whet.compiler.errors import ArgumentError, MeasureError


class Untouched(Recorder):
    """A pool that nothing may be asked of."""

    def __init__(self):
        super().__init__(lambda inp: small_cost(inp.config))

    def compare_with(self, reference):
        raise AssertionError("the search has begun")


WRONG = {
    "one argument": ({"callbacks": [lambda trial: None]}, ArgumentError, r"\(task, trial\).*takes"),
    "three arguments": ({"callbacks": [lambda a, b, c: None]}, ArgumentError, r"takes \(a, b, c\)"),
    "no opinion": ({"early_stop": True}, ArgumentError, "does not say what it expects.*=50"),
    "workers": ({"workers": "rays"}, MeasureError, "no such pool.*ray://host:port"),
    "no workers": ({"workers": 0}, MeasureError, "at least one builder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_at_once(small, tmp_path, capsys, name):
    more, error, text = WRONG[name]
    with pytest.raises(error, match=f"(?s){text}"):
        tune(small, 8, tmp_path / "a.db", "random", **({"workers": Untouched()} | more))
    assert not (tmp_path / "a.db").exists() and "workers" not in capsys.readouterr().err


def test_callbacks_of_all_forms_are_taken(small, tmp_path):
    heard = []

    class Callback:
        def __call__(self, task, trial, more=None):
            heard.append(trial.number)

    each = [Callback(), lambda *both: heard.append(both[1].number), print]
    pool = Recorder(lambda inp: small_cost(inp.config))
    tune(small, 4, tmp_path / "a.db", "random", pool, progress=False, callbacks=each)
    assert sorted(heard) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_samplers_that_say_what_they_expect(gemm):
    assert {name for name in SAMPLERS if has_opinion(name)} == {"gp", "xgb"}
    assert has_opinion(Expecting(gemm.config_space, lambda told: 0.5))
