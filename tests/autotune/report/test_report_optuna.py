"""A search in Optuna's tools: parameters that are choices, its plots, its dashboard."""

from __future__ import annotations

import io
import json
import math
import warnings
from datetime import UTC, datetime

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from report_logs import BEGAN, configs, failed, gemm_result, gemm_task, ok, write_search

from whet.autotune.results.optuna_view import study_from_log, study_of
from whet.autotune.results.result import TuneResult
from whet.autotune.results.trial import Trial
from whet.compiler.errors import LogError
from whet.search_spaces import Config

PLOTS = {
    "plot_optimization_history": {},
    "plot_param_importances": {},
    "plot_slice": {},
    "plot_contour": {"params": ["tile_i[2]", "order"]},
    "plot_parallel_coordinate": {},
    "plot_edf": {},
    "plot_rank": {"params": ["tile_j[2]", "vector"]},
    "plot_timeline": {},
}


@pytest.fixture(scope="module")
def found():
    """The result of a search of 40 trials, some of which failed."""
    task = gemm_task()
    trials = [Trial(i, c, gemm_result(c, i), task.flop) for i, c in enumerate(configs(task, 40))]
    best = min(trials, key=lambda t: t.cost)
    return TuneResult(task, best, trials[0], trials)


def test_parameters_are_what_was_chosen(found):
    study = found.study
    assert study.study_name == "test/gemm(768, 1152, 512)"
    assert study.direction.name == "MINIMIZE" and study.best_value == found.best.cost
    best = study.best_trial
    choices = found.best.config.as_dict()
    assert best.params["tile_i[1]"] == choices["tile_i"][1]
    assert best.params["tile_i[2]"] == choices["tile_i"][2] and "tile_i[0]" not in best.params
    assert best.params["order"] == choices["order"] and best.params["vector"] == choices["vector"]
    assert best.user_attrs["config"] == str(found.best.config)
    assert best.user_attrs["gflops"] == pytest.approx(found.best.gflops)
    axes = best.distributions
    assert isinstance(axes["tile_i[2]"], IntDistribution) and axes["tile_i[2]"].log
    assert not axes["unroll"].log  # 0 is one of its values
    assert axes["order"] == CategoricalDistribution(("ijk", "ikj", "kij"))


def test_failures_and_times_are_the_records(found):
    states = [t.state.name for t in found.study.trials]
    assert states == ["COMPLETE" if t.result.ok else "FAIL" for t in found.trials]
    lost = states.index("FAIL")
    attributes = found.study.trials[lost].user_attrs
    assert attributes["status"] == "build_error" and "no registers left" in attributes["error"]
    first = found.study.trials[0]
    end = datetime.fromtimestamp(BEGAN + 0.5, UTC).replace(tzinfo=None)
    assert first.datetime_complete == end and first.duration.total_seconds() == pytest.approx(0.45)


def test_numbers_words_and_what_never_changes():
    rows = [(1, 0.5, True, (0, 1), "w"), (3, 2.5, "auto", (1, 0), "w"), (2, 1, None, (0, 1), "w")]
    kinds = ("knob", "knob", "knob", "reorder", "knob")
    trials = [
        Trial(i, Config(tuple(zip("nfwro", row)), "f", kinds), ok(1e-3 * (i + 1)))
        for i, row in enumerate(rows)
    ]
    trials[1] = Trial(1, trials[1].config, failed("pruned", "too many registers"))
    study = study_of(trials)
    axes = study.trials[0].distributions
    assert axes == {
        "n": IntDistribution(1, 3),
        "f": FloatDistribution(0.5, 2.5),
        "w": CategoricalDistribution(("None", "True", "auto")),
        "r": CategoricalDistribution(("(0,1)", "(1,0)")),
    }
    assert study.trials[1].params == {"n": 3, "f": 2.5, "w": "auto", "r": "(1,0)"}
    assert [t.state.name for t in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert len(study_of([]).trials) == 0


@pytest.mark.parametrize("name", PLOTS)
def test_optuna_plots_it(found, name):
    pytest.importorskip("plotly")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        figure = getattr(optuna.visualization, name)(found.study, **PLOTS[name])
    drawn = json.loads(figure.to_json())
    assert drawn["data"]
    if name == "plot_slice":
        titles = [axis["title"]["text"] for key, axis in drawn["layout"].items() if "xaxis" in key]
        assert set(titles) == set(found.study.best_trial.params)


def test_importances_name_the_knobs(found):
    shares = optuna.importance.get_param_importances(found.study)
    assert set(shares) == set(found.study.best_trial.params)
    assert math.fsum(shares.values()) == pytest.approx(1)


def test_the_dashboard_serves_it(found):
    dashboard = pytest.importorskip("optuna_dashboard")
    study = found.study
    app = dashboard.wsgi(study._storage)

    def get(path):
        answered = []
        environ = {
            "REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": "", "SERVER_NAME": "x",
            "SERVER_PORT": "80", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(),
            "wsgi.errors": io.StringIO(),
        }  # fmt: skip
        body = b"".join(app(environ, lambda status, headers, *_: answered.append(status)))
        return answered[0], body

    status, body = get("/api/studies")
    [listed] = json.loads(body)["study_summaries"]
    assert status.startswith("200") and listed["study_name"] == study.study_name
    status, body = get(f"/api/studies/{study._study_id}")
    trials = json.loads(body)["trials"]
    assert status.startswith("200") and len(trials) == 40
    params = {p["name"]: p["param_external_value"] for p in trials[0]["params"]}
    assert params["order"] == found.trials[0].config.choice("order")
    assert get("/")[0].startswith(("200", "302")) and get("/dashboard")[0].startswith("200")


def test_a_study_from_a_log(tmp_path):
    path = tmp_path / "a.db"
    task = gemm_task()
    write_search(path, task, configs(task, 20))
    study = study_from_log(path)
    assert len(study.trials) == 20  # the last measurement is no search
    assert study.study_name == str(task.workload)
    write_search(path, gemm_task(96), configs(gemm_task(96), 5))
    with pytest.raises(LogError, match=r"2 tasks of it fit(.|\n)*test/gemm\(96"):
        study_from_log(path)
    assert len(study_from_log(path, "test/gemm", (96,)).trials) == 5
    assert len(study_from_log(path, workload=task.workload).trials) == 20
    with pytest.raises(LogError, match="did you mean 'test/gemm'"):
        study_from_log(path, "gemm")


def test_optuna_stays_as_talkative_as_it_was(found, capsys):
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.INFO)
    try:
        study_of(found.trials)
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
        assert "study created" not in capsys.readouterr().err
    finally:
        optuna.logging.set_verbosity(before)
