"""The words that the page on clusters quotes are those that are printed."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whet.compiler.errors import MeasureError
from whet.measure.cluster import check, held, reader
from whet.measure.cluster.join import Member
from whet.measure.cluster.last_word import ENDED
from whet.measure.pool import news, ray_members
from whet.measure.pool.ray_cluster import Node
from whet.measure.pool.ray_pool import RayPool

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "run_a_cluster.md"


def error_of(act: Callable[[], object]) -> str:
    with pytest.raises(MeasureError) as caught:
        act()
    return str(caught.value)


def nobody(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    return error_of(lambda: reader.check_listens("127.0.0.1:1"))


def foreign_token(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """A probe that Ray turns away."""
    denied = "import sys; sys.exit('InvalidAuthToken: Unauthenticated')"
    monkeypatch.setattr(reader, "check_listens", lambda address: "127.0.0.1")
    monkeypatch.setattr(reader.token, "find", lambda address: None)
    start = subprocess.Popen
    monkeypatch.setattr(
        reader.subprocess,
        "Popen",
        lambda words, **more: start([sys.executable, "-c", denied], **more),
    )
    with reader.ClusterReader("127.0.0.1:6379") as opened:
        return error_of(lambda: opened.read(30.0))


def version(mine: str, its: str, code: str = "") -> str:
    one = check.Versions(mine, "0123", "3.11.7", "2.60.0")
    other = check.Versions(its, code or "0123", "3.11.7", "2.60.0")
    return error_of(lambda: check.refuse_mismatch("whet worker", one, other))


def held_core(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with held.holding([0]):

        def again() -> None:
            with held.holding([0]):
                raise AssertionError

        return error_of(again)


def ray_ended(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    (folder / "ray.txt").write_text("the head went away")
    worker: Any = SimpleNamespace(_asked=0, options=SimpleNamespace(address="10.0.0.1:6379"))
    worker._fail = lambda *words: Member._fail(worker, *words)
    child: Any = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    child.wait()
    return error_of(lambda: Member._check_alive(worker, child, folder / "ray.txt", "start Ray"))


def machine_lost(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    lines = news.News()
    crew = SimpleNamespace(remove=lambda node: ([], (2, 8)))
    pool: Any = SimpleNamespace(_crew=crew, _news=lines, _moving=contextlib.nullcontext())
    RayPool._gone(pool, Node("0" * 8, "m7", False, {}, {}))
    return lines.taken()[0]


def last_lost(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    lines = news.News()
    lines.say("whet: node m7 (2 devices, 8 builders) is lost", lost=True)
    return error_of(lambda: lines.check(True, "cpu-0123456789ab", 61.0, True))


def head_lost(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    gone = SimpleNamespace(set=lambda: None)
    monkeypatch.setattr(ray_members.ray_cluster, "head_lost", gone)
    now = time.monotonic()
    silent: Any = SimpleNamespace(
        _answered=now - 31, _at=time.time() - 31, _why="", _connected=lambda: True
    )
    return error_of(lambda: ray_members.Members.check_head(silent))


PRINTED: dict[str, Callable[[pytest.MonkeyPatch, Path], str]] = {
    "nobody answers there": nobody,
    "it refuses this machine's token": foreign_token,
    "Whet 0.1.0 here, 0.2.0 on the head": lambda *_: version("0.1.0", "0.2.0"),
    "of other files": lambda *_: version("0.1.0", "0.1.0", "4567"),
    "another worker … gives it already": held_core,
    "ray start ended with code 1": ray_ended,
    "node m7 (2 devices, 8 builders) is lost": machine_lost,
    "for 61 s nothing is left that can measure": last_lost,
    "its head has not answered for 31 s": head_lost,
    "process 4711 has ended without a word": lambda *_: ENDED.format(pid=4711),
}


def quoted() -> set[str]:
    """What the page says that one sees: code in the table's first column, and where it adds."""
    rows = re.findall(r"^\| (.*) \| (.*) \|$", PAGE.read_text().partition("what you see")[2], re.M)
    left = {text for see, _ in rows for text in re.findall(r"`([^`]+)`", see)}
    return left | {text for _, is_ in rows for text in re.findall(r"`(of other files)`", is_)}


def test_the_page_quotes_what_this_module_knows() -> None:
    assert quoted() == set(PRINTED)


@pytest.mark.parametrize("text", PRINTED)
def test_what_the_page_quotes_is_printed(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = PRINTED[text](monkeypatch, tmp_path).replace("`", "")
    assert re.search(".*".join(map(re.escape, text.split("…"))), said), said
