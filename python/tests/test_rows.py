"""Answers of SQL."""

from __future__ import annotations

import pytest

import annals
from annals import errors


def test_rows_are_tuples_with_names(store: annals.Store) -> None:
    values = {"n": None, "i": 2**62, "f": 0.5, "t": "é", "b": b"\x00\xff", "yes": True}
    rows = store.query("SELECT :n AS n, :i AS i, :f AS f, :t AS t, :b AS b, :yes AS yes", values)
    assert rows.columns == ("n", "i", "f", "t", "b", "yes")
    assert list(rows) == [(None, 2**62, 0.5, "é", b"\x00\xff", 1)]
    assert rows.dicts() == [{**values, "yes": 1}] and len(rows) == 1 and rows[0][1] == 2**62
    assert rows.truncated is None and repr(rows) == "<Rows n, i, f, t, b, yes: 1 rows>"
    with pytest.raises(ValueError, match="not one value"):
        rows.scalar()
    assert store.query("SELECT 1 + 1").scalar() == 2


def test_limits_are_kept(store: annals.Store) -> None:
    rows = store.query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", rows_max=3)
    assert [row[0] for row in rows] == [1, 2, 3] and rows.truncated == "rows"
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(errors.InvalidError):
        store.query(endless, seconds_max=0.2)
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(errors.InvalidError, match="seconds_max"):
            store.query("SELECT 1", seconds_max=seconds)


@pytest.mark.parametrize("sql", ["DELETE FROM events", "SELECT 1; SELECT 2", "SELECT nothing FROM events", "PRAGMA user_version"])
def test_what_is_no_question_is_refused(store: annals.Store, sql: str) -> None:
    with pytest.raises(errors.InvalidError) as raised:
        store.query(sql)
    assert len(str(raised.value)) > 10


def test_parameters_of_other_types_are_refused(store: annals.Store) -> None:
    with pytest.raises(errors.InvalidError, match="parameter x is a list"):
        store.query("SELECT :x", {"x": [1]})  # type: ignore[dict-item]
    with pytest.raises(OverflowError):
        store.query("SELECT :x", {"x": 2**63})
    with pytest.raises(annals.Error):
        store.query("SELECT :x", {"y": 1})


def test_frames_of_pandas_and_arrow(store: annals.Store) -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    rows = store.query("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL")
    frame, table = rows.to_pandas(), rows.to_arrow()
    assert list(frame["a"]) == [1, 2] and isinstance(frame, pandas.DataFrame)
    assert table.to_pydict() == {"a": [1, 2], "b": ["x", None]} and isinstance(table, pyarrow.Table)
    empty = store.query("SELECT 1 AS a WHERE 0")
    assert list(empty.to_pandas().columns) == ["a"] and empty.to_arrow().num_rows == 0
