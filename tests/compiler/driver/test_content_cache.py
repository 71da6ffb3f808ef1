"""The cache of compiled code: whole files, by content, within a limit, among processes."""

import os
import subprocess
import sys

import pytest

from whet.compiler import settings
from whet.compiler.content_cache import ContentCache, digest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_put_is_got(folder):
    cache = ContentCache("things")
    name = digest("a", b"b")
    assert cache.get(name) is None
    assert cache.put(name, b"content", ".so") == cache.path(name, ".so")
    assert cache.get(name, ".so") == b"content"
    assert cache.get(name) is None
    assert ContentCache("others").get(name, ".so") is None


def test_borders_of_parts_count():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a") != digest("a", "")


def test_what_was_not_used_for_longest_goes():
    cache = ContentCache("things")
    names = [digest(str(k)) for k in range(4)]
    for k, name in enumerate(names):
        os.utime(cache.put(name, bytes(100)), (k + 1, k + 1))
    assert cache.get(names[0]) is not None  # and so it was used last
    assert ContentCache("things", limit_bytes=250).prune() == 200
    assert [cache.get(n) is not None for n in names] == [True, False, False, True]


def test_what_is_found_counts_as_used():
    cache = ContentCache("things")
    assert cache.find(digest("a"), ".so") is None
    kept = cache.put(digest("a"), bytes(100), ".so")
    os.utime(kept, (1, 1))
    assert cache.find(digest("a"), ".so") == kept and kept.stat().st_mtime > 1


def test_what_somebody_else_keeps_is_read(monkeypatch):
    cache = ContentCache("things")
    cache.put(digest("a"), b"content")

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(os, "utime", refuse)
    assert cache.get(digest("a")) == b"content"


def test_what_a_killed_process_left_behind_goes_in_time():
    cache = ContentCache("things")
    kept = cache.put(digest("a"), bytes(100))
    left, begun = (kept.parent / name for name in (".left", ".begun"))
    left.write_bytes(bytes(100))
    begun.write_bytes(bytes(100))
    os.utime(left, (1, 1))
    assert ContentCache("things", limit_bytes=100).prune() == 100
    assert kept.exists() and begun.exists() and not left.exists()


def test_putting_prunes():
    cache = ContentCache("things", limit_bytes=1000)
    for k in range(200):
        cache.put(digest(str(k)), bytes(100))
    held = sum(f.stat().st_size for f in cache.path("00").parent.parent.rglob("*") if f.is_file())
    assert held < 5000


def test_where_nothing_can_be_written(folder):
    folder.write_text("a file in the place of the folder")
    cache = ContentCache("things")
    assert cache.put(digest("a"), b"content") is None
    assert cache.get(digest("a")) is None
    assert cache.prune() == 0


def test_none_is_kept(monkeypatch):
    monkeypatch.setenv("WHET_CACHE_DIR", " ")
    cache = ContentCache("things")
    assert cache.put(digest("a"), b"content") is None
    assert cache.path(digest("a")) is None
    assert cache.prune() == 0


def test_the_folder_without_a_word(monkeypatch, tmp_path):
    monkeypatch.delenv("WHET_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert settings.cache_dir() == tmp_path / "whet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings.cache_dir() == tmp_path / ".cache" / "whet"


_WRITER = """
import sys
from whet.compiler.content_cache import ContentCache, digest
cache = ContentCache("things", limit_bytes=300_000)
for k in range(150):
    name = digest(str(k % 20))
    found = cache.get(name)
    assert found is None or found == name.encode() * 500, len(found)
    cache.put(name, name.encode() * 500)
    if k % 10 == int(sys.argv[1]):
        cache.prune()
"""


def test_processes_see_whole_files_only(folder):
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(k)], stderr=subprocess.PIPE)
        for k in range(3)
    ]
    for w in writers:
        _, said = w.communicate(timeout=300)
        assert w.returncode == 0, said.decode()
    assert not list(folder.rglob(".*"))
