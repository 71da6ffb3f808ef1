"""Two logs, and a task that scales an array."""

import pytest
from apply_logs import scale_task

from whet.db import TuningLog


@pytest.fixture
def logs(tmp_path):
    with TuningLog(tmp_path / "a.db") as a, TuningLog(tmp_path / "b.db") as b:
        yield a, b


@pytest.fixture
def task():
    return scale_task()
