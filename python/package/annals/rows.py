"""The answer to a statement of SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas
    import pyarrow

Value = None | int | float | str | bytes
"""A value of SQL."""


class Rows(Sequence[tuple[Value, ...]]):
    """Rows in order, as tuples. `columns` has their names.

    `truncated` is `None` if these are all rows. Otherwise it says why there may be more: `rows` (more than
    `rows_max`), `bytes`, `limit` or `behind` (a read-only store whose derived tables lag).
    """

    __slots__ = ("_rows", "columns", "truncated")

    def __init__(self, columns: list[str], rows: list[tuple[Value, ...]], truncated: str | None) -> None:
        self.columns = tuple(columns)
        self.truncated = truncated
        self._rows = rows

    @overload
    def __getitem__(self, index: int) -> tuple[Value, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Value, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Value, ...] | list[tuple[Value, ...]]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        return iter(self._rows)

    def __repr__(self) -> str:
        more = f", truncated: {self.truncated}" if self.truncated else ""
        return f"<Rows {', '.join(self.columns)}: {len(self)} rows{more}>"

    def dicts(self) -> list[dict[str, Value]]:
        """Each row as a dictionary. Of two columns with one name, the last counts."""
        return [dict(zip(self.columns, row, strict=True)) for row in self._rows]

    def scalar(self) -> Value:
        """The only value of the only row.

        Raises `ValueError` if there is not exactly one row with one column.
        """
        if len(self._rows) != 1 or len(self.columns) != 1:
            raise ValueError(f"not one value: {len(self._rows)} rows of {len(self.columns)} columns")
        return self._rows[0][0]

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame. Needs the package `pandas`."""
        import pandas

        return pandas.DataFrame.from_records(self._rows, columns=list(self.columns))

    def to_arrow(self) -> pyarrow.Table:
        """A table of Arrow. Needs the package `pyarrow`.

        Raises `pyarrow.ArrowInvalid` if a column has values of several types, as SQL allows.
        """
        import pyarrow

        columns: list[Any] = [[row[place] for row in self._rows] for place in range(len(self.columns))]
        return pyarrow.table([pyarrow.array(column) for column in columns], names=list(self.columns))
