"""Tables: rows of CSV, Parquet, Arrow, JSON lines, ARFF or a frame, each column as what it is used.

CSV is cut into blocks of whole rows here, in which each column has the type that it is used as.
What pyarrow would misread, a quote out of place, or refuses, `locate` reads row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from pyarrow import compute, csv, ipc
from torch import Tensor

from labelset.data.columns import BLOCK, WEIGHT, Columns, Piece, gathered, truth
from labelset.data.dataset import dense_features, part_numbers
from labelset.data.description import Description
from labelset.data.formats import locate
from labelset.data.kinds import object_name
from labelset.data.label_column import from_names, from_numbers, largest, names_in
from labelset.data.reading import as_number, chunks, decoded, files_of, kind_of, reading
from labelset.labels import Labels

Array = np.ndarray[Any, Any]
Batches = Iterator[tuple["Batch", Columns]]
BYTES = 1 << 18
"""Of CSV that are taken apart together."""
WIDE = 200
"""From so many columns on, pyarrow takes longer for a block of CSV than Python's own reader."""
MISSING = sorted({f(cell) for cell in locate.MISSING for f in (str, str.upper, str.title)})
CATEGORIES = 10_000
"""More words than this in one column are taken for a mistake."""


@dataclass
class Batch:
    """Some rows of a table."""

    names: list[str]
    rows: int
    first: int
    """The number of the first row."""
    columns: dict[int, Any]
    """Of those columns that are used: Arrow arrays, numbers of numpy, or lists."""
    numbers: Array | None = None
    """(rows, features) where these have been read already."""
    lines: Sequence[int] | None = None
    """The line of each row, in text."""
    missing: str = "null"
    called: str = "column"
    """What a column is called in the format."""
    unknown: Sequence[Any] | None = None
    """Labels of each row that are not known."""
    header: Mapping[str, Any] = field(default_factory=dict)
    """What a first line of JSON says of all rows: `label_names`, `card`."""

    def where(self, row: int) -> str:
        return f"row {self.first + row}" if self.lines is None else f"line {self.lines[row]}"


def read(paths: Sequence[Path], ask: Description, role: str) -> list[Piece]:
    """One piece per file; labels in one column, and categories, are numbered alike in all."""
    words = categories_of((batch for path in paths for batch in _categories(path, ask)), ask)
    return numbered([(path, blocks(path, ask, role, words)) for path in paths], ask, role)


def numbered(
    sources: Iterable[tuple[Path, Iterator[Piece]]], ask: Description, role: str = "data"
) -> list[Piece]:
    """The pieces of each source as one; labels in one column are numbered alike in all: by name
    where any row lists names, else (and for role "numbers") by number."""
    pieces = list[Piece]()
    for path, parts in sources:
        with reading(path):
            pieces.append(gathered(parts, ask.memory << 20, ask.delimiter))
            if _used(pieces[-1]) != _used(pieces[0]):
                raise ValueError(f"its columns are not those of {pieces[0].path}")
    listings = [piece.listing for piece in pieces if piece.listing is not None]
    if not listings or (role == "features" and isinstance(ask.labels, str)):
        return [replace(piece, listing=None) for piece in pieces]
    names = names_in(ask.label_names) or pieces[0].names
    named = role != "numbers" and any(listing.named for listing in listings)
    with reading(pieces[0].path):
        every: Sequence[Labels]
        if named:
            every, names = from_names(listings, names)
        else:
            said = len(names) if names else ask.labels
            count = said if isinstance(said, int) else largest(listings) + 1
            every = [from_numbers(listing, count) for listing in listings]
    return [
        replace(piece, labels=y, names=names, named=named, listing=None)
        for piece, y in zip(pieces, every, strict=True)
    ]


def _used(piece: Piece) -> list[list[str] | None]:
    return [piece.columns, None if piece.listing or piece.listed else piece.names]


def blocks(
    path: Path, ask: Description, role: str, words: Mapping[str, list[str]] | None = None
) -> Iterator[Piece]:
    """The rows, some at a time; labels in one column are listed, not numbered. `words`: of columns
    of categories, from all files."""
    used = None
    words = categories_of(_categories(path, ask), ask) if words is None else words
    for file in files_of(path):
        for batch, columns in _batches(file, ask, role):
            with reading(file):
                piece = piece_of(path, batch, columns, ask, words)
                if _used(piece) != (used or _used(piece)):
                    raise ValueError(
                        f"its columns are not those of {files_of(path)[0]}, or not in the same "
                        "order; write all files alike, or name them in feature_columns"
                    )
            used = _used(piece)
            yield piece


def _batches(file: Path, ask: Description, role: str) -> Batches:
    kind = ask.format if ask.format is not None and role == "data" else kind_of(file)
    read_batches: dict[str, Callable[..., Batches]] = {"csv": _csv, "tsv": _csv}
    read_batches |= dict.fromkeys(("arrow", "feather", "ipc"), _ipc)
    if kind in ("jsonl", "ndjson"):
        from labelset.data.formats import jsonl

        read_batches[kind] = jsonl.batches
    with reading(file):
        yield from read_batches.get(kind, _parquet)(file, ask, role)


def _categories(path: Path, ask: Description) -> Batches:
    """Only the columns of categories."""
    if ask.category_columns is not None and ask.schema is None:
        only = Description(
            feature_columns=ask.category_columns,
            category_columns=ask.category_columns,
            **{key: getattr(ask, key) for key in ("format", "separator", "header", "decimal")},
        )
        for file in files_of(path):
            yield from _batches(file, only, "data")


def categories_of(batches: Batches, ask: Description) -> dict[str, list[str]]:
    """The words of each column of categories, which become a feature each: those that the model
    knows, or else all."""
    if ask.schema is not None:
        return ask.schema.categories
    seen: dict[str, set[str]] = {}
    for batch, columns in batches:
        for at in columns.categories:
            words = seen.setdefault(batch.names[at], set())
            words.update(filter(None, _cells(batch.columns[at])[0]))
            if len(words) > CATEGORIES:
                raise ValueError(
                    f"column {batch.names[at]!r} has more than {CATEGORIES:,} different words; "
                    "leave it out of category_columns"
                )
    return {name: sorted(words) for name, words in seen.items()}


# ---- CSV -----------------------------------------------------------------------------------------


def _csv(path: Path, ask: Description, role: str) -> Batches:
    parts = chunks(path, BYTES)
    start = next(parts, b"")
    separator = _separator(start, path, ask)
    names, columns, first = list[str](), None, 0
    for block in _cut(chain([start], parts), separator):
        rows: Any = None
        if columns is None:
            rows = locate.rows_of(block.lines(path), separator, block.line - 1)
            head = next(rows, None)
            if head is None:
                continue
            names = [cell.strip() for cell in head[1]]
            if not ask.header:
                names = [str(at) for at in range(len(names))]
                rows = chain([head], rows)
            columns = Columns.of(names, ask, role)
            if ask.header and block.rest is None:
                block, rows = block.below(head[0]), None
        batches = None if rows or block.rest else _converted(block, names, columns, ask, separator)
        if batches is not None:
            for batch in batches:
                yield replace(batch, first=first), columns
                first += batch.rows
            continue
        rows = rows or locate.rows_of(block.lines(path), separator, block.line - 1)
        used, plain = _places(columns), _plain(columns)
        for lines, some, numbers in locate.blocks(rows, names, plain, ask.decimal):
            cells = {at: pa.array([row[at] for row in some], pa.large_string()) for at in used}
            if numbers is not None and plain != columns.features:
                cells |= {at: numbers[:, i] for i, at in enumerate(plain)}
                numbers = None
            yield Batch(names, len(lines), first, cells, numbers, lines, "empty or ?"), columns
            first += len(lines)
    if columns is None:
        raise ValueError("is empty")


def _separator(start: bytes, path: Path, ask: Description) -> str:
    """Of the usual ones that with which the first line has the columns of the model."""
    usual: str = "\t" if kind_of(path) == "tsv" else ","
    if ask.separator is not None or ask.schema is None:
        return ask.separator or usual
    own = str(ask.schema.options.get("separator", usual))
    line = b"".join(start.lstrip(b"\r\n").splitlines()[:1]).decode(errors="replace")
    heads = {}
    for mark in dict.fromkeys((own, usual, *locate.SEPARATORS)):
        cells: list[str] = next(locate.parser([line], mark, strict=False), [])
        heads[mark] = [cell.strip() for cell in cells]
    wanted = {*(ask.feature_columns or ask.schema.columns or ())}
    wanted |= {*(ask.text_column or ask.schema.texts)}
    if not wanted or not ask.header:
        return next((m for m in heads if len(heads[m]) >= (ask.schema.width or 1)), own)
    return max(heads, key=lambda mark: (len(wanted & {*heads[mark]}), len(heads[mark]) > 1))


def _places(columns: Columns) -> list[int]:
    """Of the columns that are used, numbers aside."""
    single = [columns.label_list, columns.id, columns.split, columns.group, columns.time]
    single += [columns.weight, columns.image]
    words = [*columns.texts, *columns.categories, *columns.dates]
    return list(dict.fromkeys([*columns.labels, *words, *(at for at in single if at is not None)]))


def _plain(columns: Columns) -> list[int]:
    """Of features that are numbers in the file."""
    words = {*columns.categories, *columns.dates}
    return [at for at in columns.features if at not in words]


@dataclass
class _Block:
    """Whole rows of CSV, as bytes."""

    line: int
    data: bytes
    ends: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """The last byte of each row, which ends its line."""
    rest: Iterator[bytes] | None = None
    """All that follows, where nobody knows which quotes open and which close."""

    def below(self, line: int) -> _Block:
        """The rows after this line."""
        place = int(np.flatnonzero(np.frombuffer(self.data, np.uint8) == 10)[line - self.line]) + 1
        return _Block(line + 1, self.data[place:], self.ends[self.ends >= place] - place)

    def lines(self, path: Path) -> Iterator[str]:
        """Decoded, each with its end."""
        return _lines(chain([self.data], self.rest or ()), path, self.line)


def _lines(parts: Iterable[bytes], path: Path, number: int = 1) -> Iterator[str]:
    last = b""
    for part in parts:
        *whole, last = (last + part).split(b"\n")
        for at, raw in enumerate(whole, number):
            yield decoded(raw + b"\n", at, path)
        number += len(whole)
    if last:
        yield decoded(last, number, path)


def _cut(parts: Iterator[bytes], separator: str) -> Iterator[_Block]:
    """Blocks that end where a row ends: at the end of a line up to which quotes are closed."""
    data, line = b"", 1
    plain = len(separator) == 1 and separator.isascii()
    while True:
        part = next(parts, b"")
        if not part and not data:
            return
        data += part if part or data.endswith(b"\n") else b"\n"
        found = np.frombuffer(data, np.uint8)
        ends = newlines = np.flatnonzero(found == 10)
        if b'"' in data:
            quotes = np.flatnonzero(found == 34)
            if not _sound(found, quotes, separator):
                plain = False
            ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
        alone = data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0
        if not plain or alone > data.endswith(b"\r"):
            yield _Block(line, data, rest=parts)
            return
        if len(ends) and (part or len(data) == ends[-1] + 1):
            end = int(ends[-1]) + 1
            yield _Block(line, data[:end], ends)
            line += int(np.searchsorted(newlines, end))
            data = data[end:]
        elif not part:  # `locate` names the line of the quote
            yield _Block(line, data, rest=parts)
            return
        if len(data) > locate.LONGEST:
            raise ValueError(f"line {line}: {locate.TOO_LONG}")
        if not part:
            return


def _sound(found: Array, quotes: Array, separator: str) -> bool:
    """Whether each cell with a quote starts and ends with one, and has others only doubled."""
    opening, closing = quotes[::2], quotes[1::2]
    before = found[opening[opening > 0] - 1]
    after = found[closing[closing < len(found) - 1] + 1]
    edges = [ord(separator), 10, 34] if separator.isascii() and len(separator) == 1 else [10, 34]
    return bool(np.isin(before, edges).all() and np.isin(after, [*edges, 13]).all())


def _converted(
    block: _Block, names: list[str], columns: Columns, ask: Description, separator: str
) -> list[Batch] | None:
    """By pyarrow; None where it refuses, or reads other rows than there are lines."""
    if not block.data:
        return []
    starts = np.concatenate([[0], block.ends[:-1] + 1])
    found = np.frombuffer(block.data, np.uint8)
    blank = (block.ends == starts) | ((block.ends == starts + 1) & (found[starts] == 13))
    if len(names) > WIDE or blank.all():
        return None if len(names) > WIDE else []
    codes = pa.dictionary(pa.int32(), pa.large_string())
    types = {str(at): pa.float64() for at in _plain(columns)}
    types |= {str(at): pa.large_string() for at in _places(columns)}
    types |= dict.fromkeys(map(str, columns.labels), codes)
    try:
        table = csv.read_csv(
            pa.BufferReader(block.data),
            csv.ReadOptions(
                use_threads=False,
                block_size=len(block.data) + 1,
                column_names=[str(at) for at in range(len(names))],
            ),
            csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            csv.ConvertOptions(
                column_types=types or {"0": pa.large_string()},
                include_columns=list(types) or ["0"],
                null_values=MISSING,
                decimal_point=ask.decimal,
            ),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    every = np.flatnonzero(found == 10)
    lines = block.line + np.searchsorted(every, block.ends[~blank])
    if table.num_rows != len(lines):
        return None
    places, batches, row = [int(name) for name in table.column_names], list[Batch](), 0
    for some in table.to_batches(BLOCK):
        of = lines[row : row + some.num_rows].tolist()
        used = dict(zip(places, some.columns, strict=True))
        batches.append(Batch(names, len(of), 0, used, lines=of, missing="empty or ?"))
        row += len(of)
    return batches


# ---- Parquet and Arrow ---------------------------------------------------------------------------


def _parquet(path: Path, ask: Description, role: str) -> Batches:
    from pyarrow import parquet

    file = parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    about = file.metadata
    size = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    width = max(about.num_columns, size // max(about.num_rows, 1) // 4)  # lists make a row wide
    batches = file.iter_batches(max(1, min(BLOCK, WEIGHT // width)))
    return batches_of(file.schema_arrow.names, batches, ask, role)


def _ipc(path: Path, ask: Description, role: str) -> Batches:
    """Read by position, not mapped: pages of a mapped file would count as memory."""
    with pa.OSFile(str(path)) as source:
        if source.read(6) == b"ARROW1":
            file = ipc.open_file(source)
            some = (file.get_batch(at) for at in range(file.num_record_batches))
        else:
            source.seek(0)
            file = some = ipc.open_stream(source)
        yield from batches_of(file.schema.names, some, ask, role)


def batches_of(names: list[str], batches: Iterable[Any], ask: Description, role: str) -> Batches:
    """Record batches, cut where they are too large."""
    columns, first = Columns.of(names, ask, role), 0
    used = list(dict.fromkeys([*columns.features, *_places(columns)]))
    for batch in batches:
        weight = sum(batch.column(at).nbytes for at in used) // 4
        size = max(1, min(BLOCK, WEIGHT * batch.num_rows // max(weight, 1)))
        for start in range(0, batch.num_rows, size):
            some = batch.slice(start, size)
            arrays = {at: some.column(at) for at in used}
            yield Batch(names, some.num_rows, first + start, arrays), columns
        first += batch.num_rows


# ---- columns -> pieces ---------------------------------------------------------------------------


def piece_of(
    path: Path, batch: Batch, columns: Columns, ask: Description, words: Mapping[str, list[str]]
) -> Piece:
    """What some rows say, each column as what it is used."""
    texts = [_texts(batch, at) for at in columns.texts]
    single = (columns.id, columns.split, columns.image)
    ids, split, files = (None if at is None else _cells(batch.columns[at])[1] for at in single)
    group, time, weight = columns.group, columns.time, columns.weight
    listed = None if columns.label_list is None else _lists(batch.columns[columns.label_list])
    labels = _labels(batch, columns.labels, ask.unknown) if columns.labels else None
    own = {batch.names[at] for at in columns.features}
    facts = {
        "categories": {name: known for name, known in words.items() if name in own},
        "dates": [batch.names[at] for at in columns.dates],
    }
    return Piece(
        path=path,
        rows=batch.rows,
        features=_features(batch, columns, words, ask) if columns.features else None,
        labels=labels,
        names=[batch.names[at] for at in columns.labels]
        or [str(name) for name in batch.header.get("label_names") or []]
        or None,
        texts=["\n".join(row) for row in zip(*texts, strict=True)] if texts else None,
        ids=ids,
        split=None if split is None else part_numbers(split, batch.lines, batch.first),
        groups=None if group is None else _groups(batch, group),
        times=None if time is None else _times(batch, time, ask.date_format),
        weights=None if weight is None else _weights(batch, weight),
        files=None if files is None else [name.strip() for name in files],
        listed=listed,
        unknown=batch.unknown if listed is not None else None,
        lines=None if listed is None or batch.lines is None else list(batch.lines),
        notes=columns.note(),
        columns=[batch.names[at] for at in columns.features],
        facts={key: value for key, value in facts.items() if value},
        about=card if isinstance(card := batch.header.get("card"), dict) else {},
    )


def _cells(column: Any) -> tuple[list[str | None], list[str]]:
    """The cells as words, None where missing; and as they are written."""
    if isinstance(column, np.ndarray):
        column = [f"{number:g}" for number in column]
    written = [str(cell) for cell in (column if isinstance(column, list) else column.to_pylist())]
    plain = (cell.strip() for cell in written)
    return [None if cell.lower() in locate.MISSING else cell for cell in plain], written


def _texts(batch: Batch, at: int) -> list[str]:
    column = batch.columns[at]
    cells: list[Any] = column if isinstance(column, list) else column.to_pylist()
    words = ["" if cell is None and cells is not column else cell for cell in cells]
    bad = next((row for row, word in enumerate(words) if not isinstance(word, str)), None)
    if bad is not None:
        got = f"{type(words[bad]).__name__} {str(words[bad])[:40]}"
        raise ValueError(
            f"{batch.where(bad)}: the text must be a string, got {got} as {batch.called} "
            f"{batch.names[at]!r}"
        )
    return words


def _lists(column: Any) -> list[Any]:
    """A list of names per row, or a word that holds them; None: nothing is known."""
    if isinstance(column, list):
        return column
    cells = column.to_pylist()
    if any(isinstance(cell, list) for cell in cells):
        return [
            None if cell is None else [_name(object_name(name)) for name in cell] for cell in cells
        ]
    return [cell if cell is None else str(cell) for cell in cells]


def _name(label: Any) -> Any:
    """A number is a name in a column of numbers; what is no name is refused where it stands."""
    return str(label) if isinstance(label, (int, float)) else label


def _features(
    batch: Batch, columns: Columns, words: Mapping[str, list[str]], ask: Description
) -> Any:
    block, places = batch.numbers, columns.features
    if block is None:
        parts = []
        for at in places:
            if batch.names[at] in words:
                parts.append(_indicators(batch.columns[at], words[batch.names[at]]))
            elif at in columns.dates:
                parts.append(_days(batch, at, ask.date_format))
            else:
                parts.append(_numbers(batch.columns[at], batch.names[at]))
        block = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    with np.errstate(over="ignore"):
        bad = np.isinf(block.astype(np.float32))
    if bad.any():
        row, column = divmod(int(bad.argmax()), block.shape[1])
        name = batch.names[places[column]] if len(places) == block.shape[1] else "features"
        raise ValueError(
            f"{batch.where(row)}: {batch.called} {name!r} must be finite in float32 "
            f"({batch.missing}: missing)"
        )
    return dense_features(block)


def _numbers(column: Any, name: str) -> Array:
    """(rows, 1), or (rows, d) of a column of equally long lists; null is NaN."""
    if isinstance(column, np.ndarray):
        return column.reshape(len(column), -1)
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
        if not len(lengths) or (lengths != lengths[0]).any():
            raise ValueError(f"column {name!r} holds lists of different lengths")
        return _numbers(compute.list_flatten(column), name).reshape(len(lengths), -1)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(f"column {name!r} must hold numbers, got {kind}; {locate.NO_NUMBERS}")
    values = column.to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)[:, None]


def _indicators(column: Any, known: Sequence[str]) -> Array:
    """(rows, words): 1 where a cell is that word, NaN where it is missing."""
    place = {word: at for at, word in enumerate(known)}
    cells = _cells(column)[0]
    codes = np.array([-2 if cell is None else place.get(cell, -1) for cell in cells])
    block: Array = (codes[:, None] == np.arange(len(known))).astype(np.float32)
    block[codes == -2] = np.nan
    return block


def _days(batch: Batch, at: int, how: str | None) -> Array:
    """(rows, 1) days since 1970, from dates, or seconds or milliseconds since then."""
    column = batch.columns[at]
    kind = getattr(column, "type", None)
    if kind is not None and pa.types.is_temporal(kind):
        moments = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        return _numbers(moments, batch.names[at]) / 86_400_000
    each = dict[str | None, float]({None: float("nan")})
    days, cells = np.empty((batch.rows, 1)), _cells(column)[0]
    for row, cell in enumerate(cells):
        if cell not in each:
            try:
                each[cell] = day_number(cell or "", how)
            except ValueError:
                wanted = "2024-01-31, or say how they are written: date_format=%d/%m/%Y"
                raise ValueError(
                    f"{batch.where(row)}: {batch.called} {batch.names[at]!r} must hold dates such "
                    f"as {how or wanted}, got {cell!r}"
                ) from None
        days[row] = each[cell]
    return days


def _groups(batch: Batch, at: int) -> list[str]:
    """The group of each row, which must be known."""
    cells = _cells(batch.columns[at])[0]
    for row, cell in enumerate(cells):
        if cell is None:
            raise ValueError(
                f"{batch.where(row)}: {batch.called} {batch.names[at]!r} is empty, so that nobody "
                "knows which rows belong together; fill it in, with a name of its own for a row "
                "that is alone"
            )
    return [str(cell) for cell in cells]


def _times(batch: Batch, at: int, how: str | None) -> Tensor:
    """(rows,) float64: numbers as they are, or days since 1970; all must be known."""
    words = [cell or "nan" for cell in _cells(batch.columns[at])[0]]
    try:
        times = np.array(words, dtype=np.float64)
    except ValueError:
        times = _days(batch, at, how)[:, 0]
    if np.isnan(times).any():
        row = int(np.isnan(times).argmax())
        raise ValueError(f"{batch.where(row)}: {batch.called} {batch.names[at]!r} holds no time")
    return torch.from_numpy(times)


def _weights(batch: Batch, at: int) -> Tensor:
    """(rows,) float64, none negative."""
    cells, weights = _cells(batch.columns[at])[0], np.empty(batch.rows)
    for row, cell in enumerate(cells):
        try:
            weights[row] = as_number(str(cell))
        except ValueError:
            weights[row] = np.nan
        if not 0 <= weights[row] < np.inf:
            raise ValueError(
                f"{batch.where(row)}: {batch.called} {batch.names[at]!r} must hold weights, "
                f"numbers of 0 and more, got {cell!r}"
            )
    return torch.from_numpy(weights)


def day_number(cell: str, how: str | None = None) -> float:
    """Days since 1970; a date without a zone is in UTC.

    >>> day_number("1970-01-03T12:00:00Z"), day_number("3/1/1970", "%d/%m/%Y")
    (2.5, 2.0)
    """
    if how is None and cell.lstrip("-").replace(".", "", 1).isdigit() and len(cell) > 8:
        seconds = float(cell)
        return seconds / (86_400 if abs(seconds) < 1e11 else 86_400_000)
    plain = cell[:10].replace("/", "-").replace(".", "-") + cell[10:]
    moment = datetime.strptime(cell, how) if how else datetime.fromisoformat(plain)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.timestamp() / 86_400


def _labels(batch: Batch, places: Sequence[int], unknown: int | None) -> Labels:
    """Of columns of 0 and 1, or words for them; NaN is unknown."""
    block = np.empty((batch.rows, len(places)), dtype=np.float32)
    for label, at in enumerate(places):
        column, name = batch.columns[at], batch.names[at]
        if isinstance(column, list):
            column = pa.array([None if x is None else str(x) for x in column], pa.large_string())
        kind = None if isinstance(column, np.ndarray) else column.type
        if kind is None or pa.types.is_primitive(kind):
            block[:, label] = _truths(_numbers(column, name)[:, 0], unknown, batch, name)
            continue
        coded = column if pa.types.is_dictionary(kind) else column.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        each = np.full(len(coded.dictionary) + 1, np.nan)  # the last one is null
        for code, word in enumerate(coded.dictionary.to_pylist()):
            try:
                each[code] = truth(str(word), unknown)
            except ValueError as error:
                where = batch.where(int((codes == code).argmax()))
                raise ValueError(f"{where}: {batch.called} {name!r}: {error}") from None
        block[:, label] = each[codes]
    return Labels.from_dense(block)


def _truths(values: Array, unknown: int | None, batch: Batch, name: str) -> Array:
    if unknown is not None:
        values = np.where(values == unknown, np.nan, values)
    bad = ~(((values >= 0) & (values <= 1)) | np.isnan(values))
    if bad.any():
        row = int(bad.argmax())
        wanted = f"a label must be 0 or 1 ({batch.missing}: unknown)"
        raise ValueError(
            f"{batch.where(row)}: {batch.called} {name!r}: {wanted}, got {values[row]:g}"
        )
    return values
