"""Damage to a log: bytes of its file, and fields of its rows, at random."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

TABLES = ("workload", "target", "device", "run", "trial", "whet_version")
VALUES = (
    "NULL", "''", "'x'", "-1", "0", "7", "1e308", "9e999", "-9e999", "9223372036854775807",
    "x'00ff'", "cast(x'fffefd' as text)", "cast(x'7b22ff7d' as text)", "'{'", "'[]'", "'{}'",
    "'null'", "'NaN'", "'[NaN]'", "'[1e999]'", "'[-0.0]'", "'\"\\ud800\"'", "'{\"a\":1e400}'",
    "'[[[[[]]]]]'", "char(0)", "'true'", "'[true]'", "'{\"fingerprint\":7}'", "'\x1b[31m'",
)  # fmt: skip
"""A damaged field's contents, as SQL."""
JUNK = ("1e999", "-1", "NaN", "null", "[]", "{}", '"\\ud83d"', "1" + "0" * 400, '"x"', "true", "0")
"""A damaged number's or word's replacement in a JSON text."""


def damage(path: Path, rng: random.Random) -> str:
    """Damage a log's file in place; returns what was done to it."""
    how = rng.choice((_bytes, _bytes, _cut, _field, _field, _field, _inside, _inside, _inside))
    return how(path, rng)


def _bytes(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    # The first page holds the tables' own descriptions, which SQLite quotes in its messages.
    end = rng.choice((100, 4096, len(data), len(data)))
    places = [rng.randrange(16, min(end, len(data))) for _ in range(rng.choice((1, 3, 30, 300)))]
    for place in places:
        data[place] = rng.choice((0, 0xFF, 0xFE, rng.randrange(256)))
    path.write_bytes(data)
    return f"bytes {places[:5]}... of {len(data)}"


def _cut(path: Path, rng: random.Random) -> str:
    data = path.read_bytes()
    size = rng.choice((0, 1, 50, 100, rng.randrange(len(data)), len(data) - 1))
    path.write_bytes(data[:size])
    return f"cut to {size} of {len(data)} bytes"


def _rows(raw: sqlite3.Connection, rng: random.Random) -> tuple[str, str, list[int]]:
    """A table, one of its columns, and some of its rows."""
    table = rng.choice(TABLES + 4 * ("trial",) + 2 * ("run",))
    columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})") if row[1] != "id"]
    ids = [row[0] for row in raw.execute(f"SELECT rowid FROM {table}")]
    return table, rng.choice(columns), rng.sample(ids, rng.choice((1, len(ids))))


def _field(path: Path, rng: random.Random) -> str:
    raw = _open(path)
    table, column, ids = _rows(raw, rng)
    value = rng.choice(VALUES)
    return _write(raw, table, column, ids, value)


def _inside(path: Path, rng: random.Random) -> str:
    """Damage inside of a text: most of all JSON that stays JSON, of another shape."""
    raw = _open(path)
    table, column, ids = _rows(raw, rng)
    row = raw.execute(f"SELECT {column} FROM {table} WHERE rowid = {ids[0]}").fetchone()
    text = row[0] if isinstance(row[0], str) else str(row[0])
    starts = [i for i, c in enumerate(text) if c.isalnum() and not text[i - 1 : i].isalnum()] or [0]
    begin = rng.choice(starts)
    end = begin
    while end < len(text) and (text[end].isalnum() or text[end] in "._-"):
        end += 1
    quoted = text[begin - 1 : begin] == '"' and text[end : end + 1] == '"'
    begin, end = (begin - 1, end + 1) if quoted and rng.random() < 0.8 else (begin, end)
    changed = text[:begin] + rng.choice(JUNK) + text[end:]
    return _write(raw, table, column, ids, "'" + changed.replace("'", "''") + "'")


def _open(path: Path) -> sqlite3.Connection:
    raw = sqlite3.connect(path)
    raw.text_factory = lambda data: data.decode("utf-8", "replace")
    return raw


def _write(raw: sqlite3.Connection, table: str, column: str, ids: list[int], value: str) -> str:
    statement = f"UPDATE {table} SET {column} = {value} WHERE rowid IN ({str(ids)[1:-1]})"
    try:
        with raw:
            raw.execute(statement)
    except sqlite3.Error:
        statement += " (refused)"  # a constraint: the log stays as it was
    finally:
        raw.close()
    return statement
