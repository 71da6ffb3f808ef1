"""Random tests: one seed a run, how many draws, and the faults that are known; a database server.

A run without ``--seed`` draws a new one, says so in its first line, and gives a test that fails the
command that replays it. Tests take their seeds from the fixture ``seeds``; hypothesis starts from
the same seed. With xdist, the workers take the seed of the process that started them.
"""

from __future__ import annotations

import os
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FAULTS = Path(__file__).with_name("known_faults.toml")
MOST_SEEDS = 10**9
FIXED = 6
"""Of so many draws of a run that nobody gave a seed, one has a seed that is always the same."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Flags for tests that draw random programs, and for faults that take minutes."""
    parser.addoption(
        "--faults", action="store_true", help="run tests that start and kill clusters for real, too"
    )
    parser.addoption(
        "--draws", type=int, default=None, help="how many random programs each such test draws"
    )
    parser.addoption(
        "--seed",
        type=int,
        default=None,
        help="what random programs are drawn from; a new one if none",
    )


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads its options
def pytest_configure(config: pytest.Config) -> None:
    """One seed for the run; hypothesis draws from it, too, under CI as anywhere else."""
    config.addinivalue_line(
        "markers", "faults: starts and kills clusters for real; --faults runs it"
    )
    given = config.getoption("--seed")
    inherited = getattr(config, "workerinput", {}).get("whet_seed")
    drawn = secrets.randbelow(MOST_SEEDS) if inherited is None else inherited
    config.stash[SEED] = drawn if given is None else given
    if find_spec("hypothesis") is None:
        return
    from hypothesis import HealthCheck, settings

    # No database: what a run draws depends on its seed alone. No health checks: they take times.
    settings.register_profile(
        "fresh", settings(), derandomize=False, database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    settings.load_profile("fresh")
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(config.stash[SEED])


SEED = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server: the one of WHET_TEST_POSTGRES, or one of this run's own."""
    given = os.environ.get("WHET_TEST_POSTGRES")
    if given:
        yield given
        return
    from postgres_server import PostgresServer, programs

    if programs() is None or find_spec("psycopg") is None:
        pytest.skip(
            "PostgreSQL and psycopg are not both installed; WHET_TEST_POSTGRES=URL names one"
        )
    with PostgresServer() as server:
        yield server.url


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of xdist's draws what its siblings draw."""
    node.workerinput["whet_seed"] = node.config.stash[SEED]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say the seed, once, where the whole run ends early, too."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        reporter.write_line(f"random tests: --seed {session.config.stash[SEED]}")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The seed again, below what failed."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"random tests were drawn with --seed {config.stash[SEED]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    """A random test that fails comes with the command that draws the same again."""
    report = yield
    if report.when == "call" and report.failed and _is_random(item):
        report.sections.append(("replay", _replay(item)))
    return report


def _is_random(item: pytest.Item) -> bool:
    function = getattr(item, "obj", None)
    return "seeds" in getattr(item, "fixturenames", ()) or hasattr(function, "hypothesis")


def _replay(item: pytest.Item) -> str:
    asked = item.config.getoption("--draws")
    more = "" if asked is None else f" --draws {asked}"
    text = f"pytest '{item.nodeid}' --seed {item.config.stash[SEED]}{more}"
    if "seeds" in getattr(item, "fixturenames", ()):
        text += "\nonly the program that failed: --seed (the seed it names) --draws 1"
    return text


@pytest.fixture
def draws(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """``draws(n)``: how many random programs to draw; ``n`` unless ``--draws`` says otherwise."""
    asked = request.config.getoption("--draws")
    return lambda n: n if asked is None else asked


@pytest.fixture
def seeds(
    request: pytest.FixtureRequest, draws: Callable[[int], int]
) -> Callable[[int], list[int]]:
    """``seeds(n)``: the seeds of ``n`` random programs (or ``--draws``).

    They follow each other from the run's seed, so that ``--seed`` with the seed of one and
    ``--draws 1`` draws that one alone. Without ``--seed`` a few are the same in each run.
    """
    first = request.config.stash[SEED]
    fresh = request.config.getoption("--seed") is None

    def some(n: int) -> list[int]:
        count = draws(n)
        fixed = count // FIXED if fresh else 0
        return [*range(fixed), *range(first, first + count - fixed)]

    return some


# what is known to be wrong


def known_faults() -> list[dict[str, str]]:
    """The entries of the list, each with ``case``, ``what``, ``since``, ``form`` and ``error``."""
    return tomllib.loads(FAULTS.read_text()).get("fault", [])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The named case of a known fault is expected to fail; one that passes fails the run.

    Tests marked ``faults`` run with ``--faults``.
    """
    cases = {fault["case"]: fault for fault in known_faults()}
    for item in items:
        if item.get_closest_marker("faults") and not config.getoption("--faults"):
            item.add_marker(pytest.mark.skip(reason="starts and kills clusters: --faults runs it"))
        fault = cases.get(item.nodeid)
        if fault is not None:
            item.add_marker(pytest.mark.xfail(strict=True, reason=fault["what"]))


@pytest.fixture
def is_known() -> Callable[[str, BaseException], bool]:
    """``is_known(program, error)``: the failure of a random program is of a kind that is listed.

    ``form`` is looked for in the program's text, ``error`` in that of the error.
    """
    faults = known_faults()

    def known(program: str, error: BaseException) -> bool:
        text = f"{type(error).__name__}: {error}"
        return any(
            re.search(f["form"], program, re.DOTALL) and re.search(f["error"], text, re.DOTALL)
            for f in faults
        )

    return known
