"""Valid files of every format, and ways to break one thing in them."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

ROWS = 24


# ---- valid files -------------------------------------------------------------------------------


def table() -> dict[str, list[object]]:
    """Columns of numbers, a text and label columns."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(ROWS, 3)).round(3)
    y = (x[:, :2] > 0).astype(int)
    words = np.array(["red", "green", "blue", "fork", "knife"])
    texts = [" ".join(words[draw.integers(0, 5, 3)]) for _ in range(ROWS)]
    columns: dict[str, list[object]] = {name: x[:, at].tolist() for at, name in enumerate("abc")}
    return columns | {"text": texts, "tag:u": y[:, 0].tolist(), "tag:v": y[:, 1].tolist()}


def of_csv(columns: dict[str, list[object]], mark: str = ",") -> bytes:
    lines = [columns.keys(), *zip(*columns.values(), strict=True)]
    return "".join(mark.join(map(str, cells)) + "\n" for cells in lines).encode()


def of_jsonl(columns: dict[str, list[object]]) -> bytes:
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows).encode()


def of_arff(columns: dict[str, list[object]]) -> bytes:
    kinds = {name: "string" if name == "text" else "numeric" for name in columns}
    head = [f"@attribute {name} {kind}" for name, kind in kinds.items()]
    rows = [
        ",".join(f"'{cell}'" if isinstance(cell, str) else str(cell) for cell in row)
        for row in zip(*columns.values(), strict=True)
    ]
    return "\n".join(["@relation r", *head, "@data", *rows, ""]).encode()


def of_svmlight(columns: dict[str, list[object]]) -> bytes:
    lines = []
    for a, b, c, _, u, v in zip(*columns.values(), strict=True):
        on = ",".join(name for name, value in (("0", u), ("1", v)) if value)
        lines.append(f"{on} 0:{a} 1:{b} 2:{c}\n")
    return "".join(lines).encode()


def of_arrow(columns: dict[str, list[object]], name: str) -> bytes:
    import pyarrow
    from pyarrow import feather, parquet

    file, made = io.BytesIO(), pyarrow.table(columns)
    (parquet.write_table if name.endswith("parquet") else feather.write_feather)(made, file)
    return file.getvalue()


def arrays(columns: dict[str, list[object]]) -> dict[str, np.ndarray]:
    x = np.array([columns[name] for name in "abc"], dtype=np.float32).T
    y = np.array([columns["tag:u"], columns["tag:v"]], dtype=np.int8).T
    return {"X": x, "Y": y, "feature_names": np.array(list("abc"))}


def of_numpy(held: dict[str, np.ndarray], name: str) -> bytes:
    file = io.BytesIO()
    if name.endswith("npy"):
        np.save(file, held["X"], allow_pickle=True)
    else:
        (np.savez if name == "n.npz" else np.savez_compressed)(file, **held)
    return file.getvalue()


def valid() -> dict[str, bytes]:
    """File name -> content."""
    columns = table()
    files = {
        "n.csv": of_csv(columns),
        "n.tsv": of_csv(columns, "\t"),
        "semi.csv": of_csv(columns, ";"),
    }
    files |= {
        "n.jsonl": of_jsonl(columns),
        "n.arff": of_arff(columns),
        "n.svm": of_svmlight(columns),
    }
    files |= {f"{name}.gz": gzip.compress(files[name]) for name in ("n.csv", "n.jsonl", "n.svm")}
    files |= {name: of_arrow(columns, name) for name in ("n.parquet", "n.feather")}
    return files | {
        name: of_numpy(arrays(columns), name) for name in ("n.npz", "packed.npz", "n.npy")
    }


# ---- breaking one thing ------------------------------------------------------------------------

CELLS = [
    *(b"", b"nan", b"inf", b"-inf", b"1e999", b"1e300", b"1_0", b"0x10", b"--1", b"1,5", b"1.5.2"),
    *(
        b"NA",
        b"?",
        b'"',
        b"'",
        b'""',
        b'"open',
        b"a\nb",
        b"\x00",
        b"\xff\xfe",
        b"\xe9",
        b"\xed\xa0\x80",
    ),
    *(
        "\uff11".encode(),
        "\u2028".encode(),
        b"-1",
        b"99999999999999999999",
        b"true",
        b"null",
        b"[]",
        b"{}",
    ),
    *(b"=1+1", b"|", b"\\", b"\r", b" 1 ", b"1" * 5000, b"x" * 200_000, b"9" * 400),
]
JSON = [
    *("1e999", "NaN", "-1", "null", "[]", "{}", '"x"', "true", "[[1]]", '{"a": 1}', "1" * 400),
    *("[" * 3000 + "]" * 3000, '"\\ud800"', "[1, 2, 3", '{"a": 1, "a": 2}', "99999999999999999999"),
]


@dataclass
class Broken:
    """A file with one thing broken."""

    content: bytes
    what: str
    changed: set[int] = field(default_factory=set)
    """The rows that were touched, where lines were; all of them where `whole`."""
    whole: bool = True


Break = Callable[[bytes, random.Random], Broken]


def flipped(content: bytes, draw: random.Random) -> Broken:
    out = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        out[draw.randrange(len(out))] ^= 1 << draw.randrange(8)
    return Broken(bytes(out), "bits flipped")


def truncated(content: bytes, draw: random.Random) -> Broken:
    return Broken(content[: draw.randrange(len(content))], "truncated")


def doubled(content: bytes, draw: random.Random) -> Broken:
    at, size = draw.randrange(len(content)), draw.randrange(1, 200)
    return Broken(content[:at] + content[at : at + size] * 2 + content[at:], "a piece twice")


def cut_out(content: bytes, draw: random.Random) -> Broken:
    at, size = draw.randrange(len(content)), draw.randrange(1, 200)
    return Broken(content[:at] + content[at + size :], "a piece missing")


def inserted(content: bytes, draw: random.Random) -> Broken:
    at = draw.randrange(len(content))
    return Broken(content[:at] + draw.choice(CELLS) + content[at:], "something put in")


def other(content: bytes, draw: random.Random) -> Broken:
    return Broken(
        draw.choice([b"", b"\n", b"\x00" * 64, b"PK\x03\x04", b"\x1f\x8b", b"{", b"a"]),
        "another file",
    )


def head(content: bytes) -> int:
    """Lines before the first row; svmlight has none."""
    end = content.lower().find(b"@data")
    return int(content[:1] == b"a") if end < 0 else content[:end].count(b"\n") + 1


def of_line(content: bytes, lines: list[bytes], number: int, what: str) -> Broken:
    """That line of the content was changed, which is a row, or else stands in the head."""
    row = number - head(content)
    return Broken(b"\n".join(lines), what, {row}, row < 0)


def cell(content: bytes, draw: random.Random) -> Broken:
    """One cell of one line of text."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines) - 1)
    words = re.split(rb"([,;\t :])", lines[number])
    words[2 * draw.randrange((len(words) + 1) // 2)] = draw.choice(CELLS)
    lines[number] = b"".join(words)
    return of_line(content, lines, number, f"a cell of line {number + 1}")


def ragged(content: bytes, draw: random.Random) -> Broken:
    """A line with a cell more or less."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines) - 1)
    mark = next((m for m in (b";", b"\t", b",") if m in lines[0]), b" ")
    cells = lines[number].split(mark)
    cells = cells[:-1] if draw.random() < 0.5 else [*cells, b"1"]
    lines[number] = mark.join(cells)
    return of_line(content, lines, number, f"line {number + 1} ragged")


def header(content: bytes, draw: random.Random) -> Broken:
    """The first line."""
    lines = content.split(b"\n")
    mark = next((m for m in (b";", b"\t", b",") if m in lines[0]), b",")
    names = lines[0].split(mark)
    at = draw.randrange(len(names))
    change = draw.choice(["twice", "gone", "blank", "odd", "none", "long"])
    if change == "twice":
        names[at] = names[at - 1]
    elif change == "gone":
        del names[at]
    elif change in ("blank", "odd"):
        names[at] = b"" if change == "blank" else draw.choice(CELLS)
    elif change == "long":
        names *= 50
    lines[0] = mark.join(names)
    return Broken(b"\n".join(lines[change == "none" :]), f"the first line: {change}")


def encoded(content: bytes, draw: random.Random) -> Broken:
    """The same in another encoding, or with other ends of lines."""
    text = content.replace(b"red", "réd".encode()).decode()
    made = {
        "latin-1": lambda: text.encode("latin-1"),
        "utf-16": lambda: text.encode("utf-16"),
        "utf-16-le": lambda: text.encode("utf-16-le"),
        "utf-8-sig": lambda: text.encode("utf-8-sig"),
        "old Macintosh": lambda: text.replace("\n", "\r").encode(),
        "Windows": lambda: text.replace("\n", "\r\n").encode(),
        "empty lines": lambda: text.replace("\n", "\n\n").encode(),
    }
    name = draw.choice(list(made))
    return Broken(made[name](), name)


def json_value(content: bytes, draw: random.Random) -> Broken:
    """One value, or one key, of one object."""
    lines = content.decode().split("\n")
    number = draw.randrange(len(lines) - 1)
    item = json.loads(lines[number])
    key = draw.choice(list(item))
    old = json.dumps(item[key])
    line = lines[number]
    at = line.index(json.dumps(key))
    if draw.random() < 0.3:
        lines[number] = (
            line[:at]
            + draw.choice(['"a"', '"labels"', '"features"', "1"])
            + line[at + len(json.dumps(key)) :]
        )
    else:
        lines[number] = line[:at] + line[at:].replace(old, draw.choice(JSON), 1)
    return Broken("\n".join(lines).encode(), f"a value of line {number + 1}", {number})


def array(content: bytes, draw: random.Random) -> Broken:
    """Arrays of another shape or type, or with odd numbers."""
    held = arrays(table())
    x, y = held["X"], held["Y"]
    made: dict[str, dict[str, object]] = {
        "NaN": {"X": np.where(x > 1, np.nan, x)},
        "infinite": {"X": np.where(x > 1, np.inf, x)},
        "objects": {"X": x.astype(object)},
        "words": {"X": x.astype(str)},
        "complex": {"X": x.astype(complex)},
        "one axis": {"X": x[:, 0]},
        "five axes": {"X": x[:, :, None, None, None]},
        "a row less": {"X": x[1:]},
        "a column less": {"X": x[:, 1:]},
        "no rows": {"X": x[:0]},
        "no columns": {"X": x[:, :0]},
        "a number": {"X": np.float32(3)},
        "big-endian": {"X": x.astype(">f4")},
        "by columns": {"X": np.asfortranarray(x)},
        "labels of 7": {"Y": y * 7},
        "labels of -1": {"Y": -y},
        "words as labels": {"Y": y.astype(str)},
        "split of 9": {"split": np.full(ROWS, 9)},
        "too many names": {"label_names": np.array(list("uvw"))},
        "equal names": {"label_names": np.array(["u", "u"])},
        "a scale of 0": {"X_scale": np.float32(0)},
        "a scale of words": {"X_scale": np.array("two")},
    }
    indptr = np.arange(ROWS + 1, dtype=np.int64)
    sparse = {"X_indptr": indptr, "X_indices": np.arange(ROWS) % 3, "X_shape": np.array([ROWS, 3])}
    change = draw.choice([*made, "negative", "beyond", "falling", "huge", "floats"])
    if change in made:
        return Broken(of_numpy(held | made[change], draw.choice(["n.npz", "p.npz"])), change)
    del held["X"], held["feature_names"]
    if change in ("negative", "beyond"):
        sparse["X_indices"] = sparse["X_indices"] * (-1 if change == "negative" else 10**6)
    elif change == "falling":
        sparse["X_indptr"] = sparse["X_indptr"][::-1].copy()
    elif change == "huge":
        sparse["X_shape"] = np.array([ROWS, 2 * 10**9])
    else:
        sparse = {name: each.astype(float) + 0.5 for name, each in sparse.items()}
    return Broken(of_numpy(held | sparse, "n.npz"), f"sparse arrays: {change}")


def npy_head(content: bytes, draw: random.Random) -> Broken:
    """The head of an array says something else than what follows."""
    head = draw.choice(
        [b"(24000000000, 3)", b"(-24, 3)", b"(24, 3, 1, 1, 1)", b"(24,)", b"24", b"()"]
    )
    made = content.replace(b"(24, 3), ", (head + b", ").ljust(9))
    return Broken(
        made.replace(b"<f4", draw.choice([b"<f4", b"<f8", b"|O8", b"<U9"])), "another head"
    )


def huge(content: bytes, draw: random.Random) -> Broken:
    """Numbers that declare far more than there is."""
    lines = content.split(b"\n")
    number = draw.randrange(len(lines) - 1)
    lines[number] = draw.choice([b"0 2000000000:1", b"2000000000 0:1", b"1 -5:1", b"-1 0:1"])
    if draw.random() < 0.3:
        lines.insert(
            0, draw.choice([b"24 2000000000 2", b"2000000000 3 2", b"-1 3 2", b"24 3 2000000000"])
        )
    return Broken(b"\n".join(lines), "huge or negative numbers", {number}, True)


def zipped(content: bytes, draw: random.Random) -> Broken:
    """Broken within the compression."""
    inner = gzip.decompress(content)
    found = draw.choice([flipped, truncated, inserted, cell, ragged])(inner, draw)
    level = draw.choice([0, 9])
    return Broken(gzip.compress(found.content, level), found.what, found.changed, found.whole)


def twice_zipped(content: bytes, draw: random.Random) -> Broken:
    made = draw.choice(
        [gzip.compress(content), gzip.decompress(content), content + b"rest", content * 2]
    )
    return Broken(made, "compressed otherwise")


def gone(content: bytes, draw: random.Random) -> Broken:
    return Broken(b"", "nothing is left")


ANY: tuple[Break, ...] = (flipped, truncated, doubled, cut_out, inserted, other)
TEXT: tuple[Break, ...] = (cell, cell, cell, ragged, encoded)
BREAKS: dict[str, tuple[Break, ...]] = {
    "csv": (*ANY, *TEXT, ragged, header, header),
    "tsv": (*ANY, *TEXT, ragged, header, header),
    "jsonl": (*ANY, encoded, json_value, json_value, json_value),
    "arff": (*ANY, *TEXT, cell),
    "svm": (*ANY, *TEXT, huge),
    "gz": (flipped, truncated, zipped, zipped, twice_zipped, other),
    "npz": (*ANY, array, array, array, array),
    "npy": (*ANY, npy_head, npy_head),
    "parquet": ANY,
    "feather": ANY,
}
