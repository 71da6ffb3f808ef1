"""One package for all tests of a process."""

import pytest
from packaged import compiler, tasks

import whet


@pytest.fixture(scope="session")
def packaged(tmp_path_factory):
    """A package of ``packaged.tasks()`` for all levels of this machine."""
    if not compiler():
        pytest.skip("no C compiler here, or no ELF")
    path = tmp_path_factory.mktemp("packaged") / "kernels.whet"
    whet.package(tasks(), path, untuned=True)
    return path
