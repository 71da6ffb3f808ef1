"""The window of a search: it follows the devices, grows while machines join, and is on record."""

from __future__ import annotations

import json

from autotune_pools import Recorder
from autotune_synthetic import gemm_cost

from whet.autotune import tune
from whet.db import TuningLog


class Growing(Recorder):
    """A pool that machines join once some candidates were submitted.

    Args:
        sizes: by the number of candidates submitted, the capacity and the devices from then on.
    """

    def __init__(self, sizes):
        super().__init__(lambda inp: gemm_cost(inp.config))
        self.sizes = sizes

    def now(self):
        return next(size for count, size in reversed(self.sizes.items()) if count <= self._tickets)

    @property
    def capacity(self):
        return self.now()[0]

    @property
    def devices(self):
        return {"cpu-00000000000a": self.now()[1]}


def told_of(path):
    """By number how many results each proposal had been told of; and the window on record."""
    with TuningLog(path, write=False) as log:
        search = next(run for run in log.runs() if run.sampler != "finalists")
        query = f"SELECT told FROM trial WHERE run_id = {search.id} ORDER BY number"
        rows = log.read("look", lambda c: list(c.exec_driver_sql(query).scalars()))
    counts = [len(json.loads(text)) for text in rows]
    return [sum(counts[: n + 1]) for n in range(len(counts))], search.options["search"]["window"]


def test_builders_alone_do_not_make_a_search_learn_late(gemm, tmp_path):
    pool = Growing({0: (67, 1)})  # 64 builders beside one device
    tune(gemm, 60, tmp_path / "a.db", "random", pool, progress=False)
    told, window = told_of(tmp_path / "a.db")
    assert window == 16
    assert told == [max(0, n + 1 - 16) for n in range(60)]


def test_the_window_grows_while_machines_join(gemm, tmp_path):
    pool = Growing({0: (4, 1), 20: (34, 8)})
    tune(gemm, 90, tmp_path / "a.db", "random", pool, progress=False)
    told, window = told_of(tmp_path / "a.db")
    assert window == 4  # as it began
    assert told[:20] == [max(0, n + 1 - 4) for n in range(20)]
    assert told[-1] == 90 - 32


def test_a_search_that_goes_on_with_another_window_is_told_what_its_log_says(gemm, tmp_path):
    tune(gemm, 90, tmp_path / "a.db", "random", Growing({0: (34, 8)}), progress=False)
    pool = Growing({0: (4, 1)})
    tune(gemm, 100, tmp_path / "a.db", "random", pool, progress=False)
    with TuningLog(tmp_path / "a.db", write=False) as log:
        query = "SELECT number, told FROM trial JOIN run ON run.id = run_id WHERE number >= 88 "
        query += "AND run.sampler <> 'finalists' ORDER BY number"
        told = log.read("look", lambda c: c.exec_driver_sql(query).all())
    # 58 was told before 89 was proposed, by a window of 32; by one of 4 the rest follows.
    assert [(n, json.loads(text)) for n, text in told[:3]] == [
        (88, [56]),
        (89, [57]),
        (90, list(range(58, 87))),
    ]
