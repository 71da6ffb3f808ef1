"""A search whose sampler cannot be made ends with the reason."""

from __future__ import annotations

import pytest
from autotune_pools import Recorder
from autotune_synthetic import gemm_cost

from whet.autotune import session, tune


def test_the_error_of_a_sampler_that_cannot_be_made_comes_out(gemm, tmp_path, monkeypatch):
    def no_sampler(*args, **more):
        raise RuntimeError("no room for a model")

    monkeypatch.setattr(session, "make_sampler", no_sampler)
    pool = Recorder(lambda inp: gemm_cost(inp.config))
    with pytest.raises(RuntimeError, match="no room for a model"):
        tune(gemm, 10, tmp_path / "a.db", "random", pool, progress=False)
    assert pool.submitted == []
