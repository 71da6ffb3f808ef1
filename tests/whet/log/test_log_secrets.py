"""A password in a log's URL is for the database alone: no line and no error shows it."""

from __future__ import annotations

import warnings

import pytest
import sqlalchemy as sa
from db_records import MATMUL, start
from log_places import fresh_schema

import whet
from whet import te
from whet.cli import main
from whet.compiler.errors import LogError
from whet.db import TuningLog
from whet.db.quick.place import place_of

SECRET = "s3cret"
URL = f"postgresql://me:{SECRET}@host:5/tunes?password={SECRET}&sslpassword={SECRET}&a=b"


def test_a_place_shows_what_can_be_given_to_a_command_again():
    place = place_of(URL)
    assert place.shown == "postgresql://me@host:5/tunes?a=b"
    assert place.url.password == SECRET and place.url.query["password"] == SECRET
    assert place_of("runs/a.db").shown == "runs/a.db"


def test_the_warning_on_what_was_not_tuned_shows_no_password(postgres):
    A = te.placeholder((8,), name="A")
    task = whet.create_task(outputs=[te.compute((8,), lambda i: A[i] + 1, name="B")])
    with fresh_schema(postgres) as url:
        secret = sa.make_url(url).set(password=SECRET).render_as_string(hide_password=False)
        TuningLog(secret).close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with whet.apply_best(secret):
                whet.build(task)
    said = "\n".join(str(one.message) for one in caught)
    assert "apply_best" in said and "whet tune" in said and SECRET not in said


@pytest.mark.parametrize("words", ["stats", "list", "export -o a.jsonl --force", "prune --yes",
                                   "verify", "distill -o b.db", "list --runs"])  # fmt: skip
def test_no_command_shows_a_password(postgres, words, tmp_path, monkeypatch, capfd):
    """An error's way out neither."""
    monkeypatch.chdir(tmp_path)
    name, *options = words.split()
    with fresh_schema(postgres) as url:
        secret = sa.make_url(url).set(password=SECRET).render_as_string(hide_password=False)
        with TuningLog(secret) as log:
            log.finish_run(start(log, MATMUL))
        assert main(["log", name, secret, *options]) == (name == "distill")  # nothing worked
    said = "".join(capfd.readouterr())
    assert said and SECRET not in said


def test_imports_and_errors_show_none_either(postgres, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with TuningLog("a.db") as log:
        log.finish_run(start(log, MATMUL))
    assert main(["log", "export", "a.db", "-o", "a.jsonl"]) == 0
    with fresh_schema(postgres) as url:
        secret = sa.make_url(url).set(password=SECRET).render_as_string(hide_password=False)
        assert main(["log", "import", "a.jsonl", "--log", secret]) == 0
        assert main(["log", "merge", "a.db", "-o", secret]) == 0
        assert main(["best", secret]) == 0
        assert main(["top", secret, "--once"]) == 0
        assert main(["log", "export", "a.db", "-o", secret]) == 2
    nobody = f"postgresql://me:{SECRET}@127.0.0.1:1/none"
    assert main(["log", "stats", nobody]) != 0
    with pytest.raises(LogError) as error:
        TuningLog(nobody)
    said = "".join(capfd.readouterr()) + str(error.value)
    assert "127.0.0.1:1" in said and SECRET not in said
