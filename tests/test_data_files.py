"""Readers of data: every format, what is wrong named with its line, and any damage survived."""

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import time

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_iris

from maxmargin import _core
from maxmargin.io import Columns, batches, load_ranges, read_data, save_ranges
from maxmargin.io.ranges import Ranges
from maxmargin.io.streams import atomic, lines

KNOWN = Columns(target="label")


@pytest.fixture
def write(tmp_path):
    def one(content, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return one


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_every_format_tells_the_same(iris, tmp_path):
    X, y = iris
    names = [f"x{k}" for k in range(4)]
    table = pa.table({**{n: X[:, k] for k, n in enumerate(names)}, "label": y})
    text = "\n".join([",".join([*names, "label"]), *(f"{','.join(map(repr, r))},{c}"
                     for r, c in zip(X.tolist(), y, strict=True))])  # fmt: skip
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "a.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "b.csv").write_text(text.replace(",", ";"))
    for ending, module in ((".gz", gzip), (".bz2", bz2), (".xz", lzma)):
        (tmp_path / f"a.csv{ending}").write_bytes(module.compress(text.encode()))
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    pa.feather.write_feather(table, tmp_path / "a.feather")
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), table.schema) as stream:
        stream.write_table(table)
    np.savez(tmp_path / "a.npz", X=X, y=y)
    np.savez(tmp_path / "b.npz", data=np.asfortranarray(X), target=y)
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    paths = sorted(map(str, tmp_path.iterdir()))
    assert len(paths) == 12
    for path in paths:
        data = read_data(path, columns=KNOWN)
        dense = data.X.toarray() if sp.issparse(data.X) else data.X
        np.testing.assert_array_equal(dense, X)
        np.testing.assert_array_equal(data.y, y)
        assert data.y.dtype == np.int64
        parts = list(batches(path, columns=Columns(target="label", width=4, text_target=False)))
        whole = [p.X.toarray() if sp.issparse(p.X) else p.X for p in parts]
        np.testing.assert_array_equal(np.vstack(whole), X)


def test_a_single_target_is_refused_in_batches_too(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.eye(3), y=np.float64(1))
    for read in (read_data, lambda p: list(batches(p, columns=Columns()))):
        with pytest.raises(ValueError, match=r"one value per row of X; got shapes \(\)"):
            read(str(path))


def test_sparse_npz(tmp_path):
    X = sp.random_array((20, 9), density=0.3, rng=0, format="csr")
    sp.save_npz(tmp_path / "x.npz", X)
    data = read_data(str(tmp_path / "x.npz"), columns=Columns(width=12))
    assert sp.issparse(data.X)
    assert data.X.shape == (20, 12)
    assert abs(data.X[:, :9] - X).max() == 0


def test_target_by_name_and_position(write):
    path = write("a,b,label\n1,2,x\n3,4,y\n")
    for target in ("label", "3", "-1", None):
        data = read_data(path, columns=Columns(target=target))
        assert (data.names, data.target, data.y.tolist()) == (("a", "b"), "label", ["x", "y"])
    with pytest.raises(ValueError, match="there is no column '--1'"):
        read_data(path, columns=Columns(target="--1"))
    data = read_data(path, columns=Columns(target="1", drop=("label",)))
    assert (data.X.tolist(), data.y.tolist()) == ([[2.0], [4.0]], [1, 3])


def test_classes_of_any_type(write):
    for cells, expected in (
        (("true", "false"), [True, False]),
        (("1", "-1"), [1, -1]),
        (("0.5", "2"), [0.5, 2.0]),
        (("é b", '"x,y"'), ["é b", "x,y"]),
        (("007", "x"), ["007", "x"]),
    ):
        data = read_data(write(f"a,label\n1,{cells[0]}\n2,{cells[1]}\n"), columns=KNOWN)
        assert data.y.tolist() == expected
    path = write("a,label\n1,007\n2,8\n")
    assert read_data(path, columns=Columns(target="label", text_target=True)).y.tolist() == [
        "007", "8",
    ]  # fmt: skip


def test_categories_and_missing_cells(write):
    data = read_data(write("a,colour,label\n1,red,u\n?,,v\nNA,blue,u\n"), columns=KNOWN)
    assert data.categorical == ("colour",)
    assert data.X[:, 1].tolist() == ["red", None, "blue"]
    assert np.isnan(data.X[1:, 0].astype(float)).all()
    again = Columns(features=("a", "colour"), categorical=("colour",), target="label",
                    text_target=True)  # fmt: skip
    data = read_data(write("colour,label,extra,a\n5,u,9,1\n"), columns=again)
    assert data.X.tolist() == [[1.0, "5"]]
    assert data.notes == ("ignored columns that the model does not know: 'extra'",)
    kept = read_data(write("a,zip,label\n1,10115,u\n2,20095,v\n"),
                     columns=Columns(target="label", categorical=("zip",)))  # fmt: skip
    assert kept.X[:, 1].tolist() == ["10115", "20095"]


def test_first_line_of_numbers_is_no_header(write):
    data = read_data(write("1,2,3\n4,5,6\n"), columns=Columns(target="-1"))
    assert (data.X.tolist(), data.y.tolist()) == ([[1, 2], [4, 5]], [3, 6])
    assert "columns are called x1 ... x3" in data.notes[0]
    data = read_data(write("1,2,3\n4,5,6\n"), columns=Columns(target="-1", header=True))
    assert data.names == ("1", "2")


WRONG = {
    "letter in a number": ("a,label\n1,u\n2,v\n3,u\nx4,v\n", "line 5: 'x4' in column 'a'"),
    "empty lines count": ("\n\na,label\n\n1,u\n2,v\n3,u\n\nx4,v\n", "line 9: 'x4' in column 'a'"),
    "too few cells": ("a,b,label\n1,2,u\n3,u\n", "line 3: 2 cells, but there are 3 columns"),
    "infinite": ("a,label\n1,u\ninf,v\n", "line 3: column 'a' is infinite"),
    "no target in a row": ("a,label\n1,u\n2,\n", "line 3: the target 'label' is missing"),
    "name twice": ("a,a,label\n1,2,u\n", "line 1: two columns have the name 'a'"),
    "nothing else": ("label\nu\n", "no column beside the target"),
    "no such column": ("a,b\n1,u\n", "there is no column 'label'; there are 'a', 'b'"),
    "dates": ("a,label\n2020-01-01,u\n2020-01-02,v\n", "column 'a' holds dates"),
    "names of things": ("a,label\n" + "".join(f"n{k},u\n" for k in range(200)), "--drop a"),
    "not UTF-8": (b"a,label\n\xff\xfe,u\n", "column 'a' holds bytes that are not UTF-8"),
    "empty": ("", "holds no rows"),
    "header only": ("a,label\n", "holds no rows"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_line(write, name):
    content, said = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(said)) as error:
        read_data(write(content), columns=KNOWN)
    assert "\n" not in str(error.value)


def test_lines_are_right_in_later_batches(write, monkeypatch):
    monkeypatch.setattr("maxmargin.io.data._BLOCK", 64)
    rows = [f"{k},u" for k in range(200)]
    rows[150] = "1..5,u"
    path = write("a,label\n" + "\n".join(rows) + "\n")
    known = Columns(features=("a",), target="label", needed=False)
    with pytest.raises(ValueError, match=r"line 152: '1\.\.5' in column 'a' is not a number"):
        list(batches(path, columns=known))
    assert len(list(lines(io.BytesIO(("a,label\n" + "\n".join(rows)).encode()), 64))) > 5
    text = "\n".join(f"1 1:{k}" for k in range(50)) + "\n1 1:x\n"
    with pytest.raises(ValueError, match=r"line 51, column 5: a value must be a finite number"):
        list(batches(write(text, "a.svm"), columns=Columns(width=1)))


@pytest.mark.parametrize("kind", ["csv", "svm", "parquet", "npz"])
def test_batches_are_bounded(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("maxmargin.io.data._BLOCK", 4096)
    monkeypatch.setattr("maxmargin.io.data._CELLS", 400)
    X = np.random.default_rng(0).normal(size=(2000, 4)).round(3)
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("a,b,c,d\n" + "\n".join(",".join(map(repr, r)) for r in X.tolist()))
    elif kind == "svm":
        dump_svmlight_file(X, np.zeros(2000), str(path), zero_based=False)
    elif kind == "parquet":
        pa.parquet.write_table(pa.table({n: X[:, k] for k, n in enumerate("abcd")}), path)
    else:
        np.savez(path, X=X)
    parts = list(batches(str(path), columns=Columns(features=tuple("abcd") if kind in ("csv",
                 "parquet") else None, width=4, needed=False)))  # fmt: skip
    assert max(p.X.shape[0] for p in parts) <= 400
    whole = np.vstack([p.X.toarray() if sp.issparse(p.X) else p.X for p in parts])
    np.testing.assert_array_equal(whole, X)


# ---- LIBSVM's text ----------------------------------------------------------------------------


def test_libsvm_text_by_hand():
    text = b"+1 1:2 3:-.5e1 # note\n\n# all\n-1.5 qid:3 2:1e-400\r\n0\n"
    target, offsets, columns, values = _core.read_libsvm(text)
    assert target.tolist() == [1, -1.5, 0]
    assert offsets.tolist() == [0, 2, 3, 3]
    assert columns.tolist() == [0, 2, 1]
    assert values.tolist() == [2, -5, 0]


def test_libsvm_text_keeps_every_digit():
    values = np.random.default_rng(0).normal(size=2000) * 10.0 ** np.arange(-100, 100, 0.1)
    text = "\n".join(f"{v!r} 1:{v!r} 7:{v:.3g}" for v in values.tolist()).encode()
    target, _, _, read = _core.read_libsvm(text)
    np.testing.assert_array_equal(target, values)
    np.testing.assert_array_equal(read[::2], values)
    np.testing.assert_array_equal(read[1::2], [float(f"{v:.3g}") for v in values])


BAD_LINES = {
    "1 0:1": "column 3: an index must be a whole number from 1",
    "1 2147483648:1": "column 3: an index must be",
    "1 1:1 1:2": "column 7: indices must ascend",
    "1 3:1 2:2": "column 7: indices must ascend",
    "1 1:nan": "column 5: a value must be a finite number; got 'nan'",
    "1 1:inf": "column 5",
    "1 1:1e999": "column 5",
    "1 1:": "column 5: a value must be a finite number; got ''",
    "1 1:0x10": "column 5",
    "1 1:1_0": "column 5",
    "1 5": "column 3: expected index:value; got '5'",
    "1 :5": "column 3: an index",
    "x 1:1": "column 1: a line must begin with a finite number, the target",
    "1:1 2:2": "column 1",
    "1,2 1:1": "column 1",
    "+-1 1:1": "column 1",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_libsvm_text_names_line_and_column(line):
    with pytest.raises(ValueError, match=r"^line 7, ") as error:
        _core.read_libsvm(f"1 1:1\n\n{line}\n1 1:1".encode(), 5)
    assert BAD_LINES[line] in str(error.value)


def test_narrow_data_are_padded_and_wide_ones_refused(write):
    path = write("1 1:1\n\n1 2:1 5:1\n", "a.svm")
    assert read_data(path, columns=Columns(width=9)).X.shape == (2, 9)
    with pytest.raises(ValueError, match=r"line 3: index 5 is beyond the model's 4 features"):
        read_data(path, columns=Columns(width=4))


# ---- damage -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 3)).round(2), np.arange(8) % 2
    text = "a,b,c,d,label\n" + "\n".join(
        f"{','.join(map(repr, r))},{'xyz'[k % 3]},{k % 2}" for k, r in enumerate(X.tolist())
    )
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "label": y})
    pa.parquet.write_table(table, folder / "a.parquet")
    pa.feather.write_feather(table, folder / "a.feather")
    with pa.ipc.new_stream(str(folder / "a.arrow"), table.schema) as stream:
        stream.write_table(table)
    np.savez(folder / "a.npz", X=X, y=y)
    np.savez_compressed(folder / "b.npz", X=X, y=y)
    dump_svmlight_file(X, y, str(folder / "a.svm"), zero_based=False)
    (folder / "a.csv").write_text(text)
    (folder / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "a.csv.xz").write_bytes(lzma.compress(text.encode()))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def mutated(content, rng):
    """A file with some bytes changed, cut off, repeated or left out."""
    cells = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, len(cells) + 1))
        kind = rng.integers(0, 5)
        if kind == 0 and cells:
            cells[at % len(cells)] = int(rng.integers(0, 256))
        elif kind == 1 and cells:
            cells[at % len(cells)] = int(rng.choice(list(b'0159-+.eE:,;\n\r\t xN"#\x00\xff')))
        elif kind == 2:
            del cells[at : at + int(rng.integers(1, 9))]
        elif kind == 3:
            cells[at:at] = cells[max(at - 6, 0) : at]
        else:
            del cells[at:]
    return bytes(cells)


COUNTS = {"a.csv": 700, "a.svm": 2000, "a.npz": 700, "b.npz": 500, "a.csv.gz": 300,
          "a.csv.xz": 300, "a.parquet": 500, "a.feather": 500, "a.arrow": 500}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_any_damage_is_an_error_or_none(whole, name, tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / name
    limit = time.monotonic() + 60  # a guard against a hang, not a promise
    known = Columns(features=("a", "b"), target="label", text_target=False)
    refused = 0
    for k in range(COUNTS[name]):
        path.write_bytes(mutated(whole[name], rng))
        try:
            if k % 2:
                data = [read_data(str(path), columns=KNOWN)]
            else:
                table = not name.endswith(("svm", "npz"))
                data = list(batches(str(path), columns=known if table else Columns(width=3)))
        except (ValueError, MemoryError) as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017
        else:
            for part in data:
                cells = part.X.data if sp.issparse(part.X) else part.X
                assert cells.dtype == object or not np.isinf(cells).any()
                assert part.y is None or len(part.y) == part.X.shape[0]
        assert time.monotonic() < limit
    assert refused > COUNTS[name] // 20


def test_libsvm_text_survives_any_bytes(whole):
    rng = np.random.default_rng(2)
    for _ in range(5000):
        text = mutated(whole["a.svm"], rng)
        try:
            target, offsets, columns, values = _core.read_libsvm(text)
        except ValueError as error:
            assert re.match(r"line \d+, column \d+: ", str(error))  # noqa: PT017
        else:
            assert len(offsets) == len(target) + 1
            assert offsets[-1] == len(columns) == len(values)
            assert np.isfinite(values).all()
            assert np.isfinite(target).all()


# ---- svm-scale --------------------------------------------------------------------------------


def test_ranges_go_round(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 4)) * [1, 10, 0, 3] + [0, 5, 2, 0]
    scaler = Ranges(lower=0, upper=2).fit(X)
    scaled = scaler.transform(X)
    assert scaled.min() >= -1e-12
    assert scaled[:, [0, 1, 3]].max(axis=0) == pytest.approx(2)
    assert not scaled[:, 2].any()
    save_ranges(scaler, tmp_path / "range")
    read = load_ranges(tmp_path / "range", n_features=4)
    np.testing.assert_allclose(read.transform(X), scaled, atol=1e-12)
    assert (tmp_path / "range").read_text().splitlines()[0] == "x"


def test_sparse_ranges_keep_zeros_where_they_can():
    X = sp.csr_array(np.array([[0.0, 2.0], [4.0, 0.0]]))
    assert sp.issparse(Ranges(lower=0, upper=1).fit(X).transform(X))
    dense = Ranges().fit(X).transform(X)
    np.testing.assert_array_equal(dense, Ranges().fit(X.toarray()).transform(X.toarray()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y\n-1 1\n0 5\nx\n-1 1\n1 0 1\n", "line 1: it scales the target too"),
        ("x\n1 -1\n", "line 2: 1 must be below -1"),
        ("x\n-1 1\n1 0\n", "line 3: expected 3 finite numbers"),
        ("x\n-1 1\n1.5 0 1\n", "line 3: 1.5 is no index"),
        ("x\n-1 1\n1 0 1\n1 0 1\n", "line 4: an index comes twice"),
        ("", "line 1: it must begin with 'x'"),
    ],
)
def test_damaged_ranges(tmp_path, text, said):
    (tmp_path / "range").write_text(text)
    with pytest.raises(ValueError, match=re.escape(said)):
        load_ranges(tmp_path / "range")


# ---- writing ----------------------------------------------------------------------------------


def test_atomic_leaves_nothing_behind(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def broken():
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        broken()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"
    with pytest.raises(FileExistsError, match="--force"), atomic(path, force=False):
        pass
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    with atomic(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_atomic_keeps_who_may_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("secret")
    path.chmod(0o600)
    with atomic(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # from its first byte on
        temporary.write_text("new secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = os.umask(0o027)
    try:
        with atomic(tmp_path / "b.txt") as temporary:
            temporary.write_text("for the group")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "b.txt").stat().st_mode) == 0o640


def test_atomic_writers_do_not_meet(tmp_path):
    """Threads have the same process: each writes beside, the last to end is what stands there."""
    path = tmp_path / "a.txt"
    with atomic(path) as first, atomic(path) as second:
        assert first != second
        first.write_text("1111")
        second.write_text("22")
    assert path.read_text() == "1111"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_lines_cut_only_at_line_ends():
    text = b"a\nbb\n\nccc\nd"
    for size in (1, 2, 3, 100):
        found = list(lines(io.BytesIO(text), size))
        assert b"".join(block for _, block in found) == text
        assert all(text.split(b"\n")[line - 1] == block.split(b"\n")[0] for line, block in found)
