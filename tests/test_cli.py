"""The command line: in process, and once each through the real executable."""

import contextlib
import json
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn.datasets
import sklearn.svm
import skops.io
from libsvm import svm, svmutil
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, load
from maxmargin.cli import main
from maxmargin.cli.prepare import libsvm_options
from maxmargin.io import load_libsvm_model, open_model
from maxmargin.solvers import SMO

EXECUTABLE = Path(sysconfig.get_path("scripts")) / "maxmargin"
IRIS = sklearn.datasets.load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data files and one model, made by the commands themselves."""
    path = tmp_path_factory.mktemp("cli")
    X, y = IRIS
    with contextlib.chdir(path):
        assert main(["demo", "iris", "--write", "iris.csv", "-q"]) == 0
        assert main(["fit", "iris.csv", "-C", "10", "-o", "m.skops", "-q"]) == 0
        np.savez("iris.npz", X=X, y=y)
        dump_svmlight_file(X, y, "iris.svm", zero_based=False)
        rows = ["width,colour,size,label"]
        rng = np.random.default_rng(0)
        for k in range(60):
            colour = ("red", "blue", "")[k % 3]
            size = "" if k % 7 == 0 else f"{rng.normal() + (k % 2):.3f}"
            rows.append(f"{rng.normal() + 3 * (k % 3):.3f},{colour},{size},{'ab'[k % 2]}")
        Path("mixed.csv").write_text("\n".join(rows) + "\n")
        Path("one.csv").write_text("a,label\n1,u\n2,u\n")
        Path("few.csv").write_text("\n".join(Path("iris.csv").read_text().splitlines()[:60]))
    return path


@pytest.fixture
def run(folder, tmp_path, capsys, monkeypatch):
    """Run a command in a folder with the data files; return code, stdout, stderr."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        capsys.readouterr()
        code = main(list(map(str, arguments)))
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return command


def parsed(run, *arguments):
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    assert out.count("\n") == 1
    return json.loads(out)


# ---- through the executable -------------------------------------------------------------------


# Every process pays two seconds for scikit-learn's import; this one runs the executable many times.
DRIVER = """
import contextlib, io, json, runpy, sys
executable, found = sys.argv[1], []
for arguments, stdin in json.load(sys.stdin):
    sys.argv = [executable, *arguments]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    out, err, code = io.StringIO(), io.StringIO(), None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(executable, run_name="__main__")
        except SystemExit as end:
            code = end.code
    found.append([code, out.getvalue(), err.getvalue()])
json.dump(found, sys.__stdout__)
"""


def test_each_command_through_the_real_executable(folder, tmp_path):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (tmp_path / "iris.csv").read_text()
    (tmp_path / "other.csv").write_text(text.replace("5.1,", "5.2,"))
    said = {
        "score m.skops iris.csv --json": (0, '{"accuracy": '),
        "predict m.skops - --format csv": (0, "prediction\nsetosa\n"),
        "verify m.skops other.csv": (1, "NO: "),
        "doctor iris.csv": (0, "largest nu"),
        "explain m.skops iris.csv --row 60": (0, "nearest change"),
        "convert m.skops m.onnx": (0, "m.onnx"),
        "demo iris": (0, "iris"),
        "bench --rows 200 --repeats 1": (0, "relative gap"),
        "search iris.csv --Cs 1,10 --gammas 0.1,1": (0, "C \\ gamma"),
        "plot m.skops iris.csv -o m.png": (0, "m.png (MarginDisplay)"),
    }
    steps = [[command.split(), text if " - " in command else ""] for command in said]
    told = subprocess.run(
        [sys.executable, "-c", DRIVER, EXECUTABLE], cwd=tmp_path, capture_output=True, text=True,
        input=json.dumps(steps), check=True,
    )  # fmt: skip
    for (command, (code, part)), (found, out, err) in zip(
        said.items(), json.loads(told.stdout), strict=True
    ):
        assert found == code, f"{command}: {err}"
        assert part in out, command
    assert (tmp_path / "m.png").read_bytes()[1:4] == b"PNG"


def test_the_executable_alone(folder, tmp_path):
    """Standard input, both outputs and exit codes of a process of its own."""
    text = (folder / "iris.csv").read_text()

    def command(*arguments, code=0, stdin=None):
        told = subprocess.run([EXECUTABLE, *arguments], cwd=tmp_path, capture_output=True,
                              text=True, input=stdin, check=False)  # fmt: skip
        assert told.returncode == code, told.stderr
        return told

    assert command("--version").stdout.startswith("maxmargin ")
    options = ("--format", "csv", "-C", "10", "-o", "new.skops", "--json")
    fit = command("fit", "-", *options, stdin=text)
    assert json.loads(fit.stdout)["status"] == "optimal"
    assert "standardised" in fit.stderr
    wrong = command("fit", "iris.csv", "--nope", code=2)
    assert wrong.stderr.count("\n") == 1
    assert wrong.stderr.startswith("maxmargin: ")


def test_the_lab_through_the_real_executable():
    command = [EXECUTABLE, "lab", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as lab:
        try:
            address = lab.stdout.readline().split()[4]
            with urllib.request.urlopen(address, timeout=30) as page:
                assert b"<html" in page.read()
            lab.send_signal(signal.SIGINT)
            assert lab.wait(30) == 0
        finally:
            lab.kill()


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from maxmargin.cli import main; main(['--help']); "
        "print(*sys.modules, file=sys.stderr)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Train a machine" in told.stdout
    heavy = {"numpy", "scipy", "sklearn", "pyarrow", "pandas", "joblib", "maxmargin._core"}
    assert not heavy & set(told.stderr.split())


def test_every_command_has_help(run):
    for name in ("fit", "predict", "score", "search", "verify", "doctor", "explain", "convert",
                 "demo", "bench", "plot", "lab"):  # fmt: skip
        code, out, _ = run(name, "--help")
        assert code == 0
        assert f"maxmargin {name}" in out
        assert "--json" in out
    assert run()[0] == 0


# ---- fit, predict, score ----------------------------------------------------------------------


def test_the_model_is_that_of_python(run):
    X, y = IRIS
    held = open_model("m.skops")
    expected = make_pipeline(StandardScaler(), SVC(C=10)).fit(X, y)
    names = np.array(["setosa", "versicolor", "virginica"])
    np.testing.assert_array_equal(held.model.predict(X), names[expected.predict(X)])
    assert held.about["features"][0] == "sepal_length"
    assert held.about["target"] == "target"
    assert held.about["certificate"]["status"] == "optimal"
    assert held.about["data"]["labels"] == dict.fromkeys(names.tolist(), 50)


@pytest.mark.parametrize(
    ("estimator", "options"),
    [("svc", ("--balanced", "--probability")), ("nusvc", ("--nu", "0.1")), ("klr", ()),
     ("lssvm", ()), ("svc", ("--multi-class", "ovr", "--gap-tol", "1e-6", "--gamma", "auto")),
     ("svc", ("--kernel", "poly", "--degree", "2", "--coef0", "1", "--no-scale"))],
)  # fmt: skip
def test_every_classifier(run, estimator, options):
    code, _, _ = run("fit", "iris.csv", "--estimator", estimator, *options, "-o", "n.skops")
    assert code == 0
    assert parsed(run, "score", "n.skops", "iris.csv")["accuracy"] > 0.9
    assert run("verify", "n.skops", "iris.csv")[0] == 0


@pytest.mark.parametrize("options", [("svr", "--epsilon", "0.05"), ("nusvr", "-C", "5"),
                                     ("krr", "--alpha", "0.1"), ("lssvr",)])  # fmt: skip
def test_every_regressor(run, options):
    drop = ("--target", "petal_width", "--drop", "target")
    assert run("fit", "iris.csv", *drop, "--estimator", *options, "-o", "n.skops")[0] == 0
    score = parsed(run, "score", "n.skops", "iris.csv")
    assert next(iter(score)) == "r2"
    assert score["r2"] > 0.9
    assert run("verify", "n.skops", "iris.csv")[0] == 0
    _, out, _ = run("predict", "n.skops", "iris.csv")
    np.testing.assert_allclose(
        [float(line) for line in out.splitlines()[1:]],
        load("n.skops").predict(IRIS[0][:, :3]), rtol=1e-12,
    )  # fmt: skip


@pytest.mark.parametrize("estimator", ["oneclass", "svdd"])
def test_machines_without_target(run, estimator):
    options = ("--estimator", estimator, "--nu", "0.1", "--drop", "target")
    assert run("fit", "iris.csv", *options, "-o", "n.skops")[0] == 0
    _, out, _ = run("predict", "n.skops", "iris.csv", "--output-format", "txt")
    assert {"1", "-1"} == set(out.split())
    assert run("verify", "n.skops", "iris.csv")[0] == 0


def test_categories_and_missing_cells_travel_with_the_model(run):
    code, _, err = run("fit", "mixed.csv", "-o", "n.skops")
    assert code == 0
    assert "filled with the median" in err
    assert "categories: colour" in err
    first = parsed(run, "score", "n.skops", "mixed.csv")["accuracy"]
    text = Path("mixed.csv").read_text().splitlines()
    order = [2, 0, 3, 1]
    turned = [",".join([line.split(",")[k] for k in order] + ["9"]) for line in text]
    turned[0] = "size,width,label,colour,extra"
    Path("turned.csv").write_text("\n".join(turned))
    again = parsed(run, "score", "n.skops", "turned.csv")
    assert again["accuracy"] == first
    Path("new.csv").write_text("width,colour,size\n1,green,\n")
    assert run("predict", "n.skops", "new.csv")[0] == 0
    assert run("verify", "n.skops", "mixed.csv")[0] == 0
    code, _, err = run("convert", "n.skops", "n.onnx")
    assert (code, Path("n.onnx").exists()) == (2, False)
    assert "takes one matrix of numbers" in err
    assert run("explain", "n.skops", "1.5,red,0.2")[0] == 0
    code, out, _ = run("doctor", "mixed.csv")
    assert code == 0
    assert "the pipeline fills them" in out


def test_truth_values_and_numbers_are_classes(run):
    for names in (("true", "false"), ("1.5", "2"), ("1", "-1"), ("x", "1")):
        rows = [f"{k % 2 + 0.1 * (k % 3)},{names[k % 2]}" for k in range(20)]
        Path("c.csv").write_text("a,label\n" + "\n".join(rows))
        options = () if names[0] != "1.5" else ("--estimator", "svr")
        assert run("fit", "c.csv", *options, "-o", "c.skops", "--force")[0] == 0
        score = parsed(run, "score", "c.skops", "c.csv")
        assert next(iter(score.values())) > 0.8
        assert run("verify", "c.skops", "c.csv")[0] == 0


def test_formats_of_predictions(run):
    expected = load("m.skops").predict(IRIS[0]).tolist()
    for name in ("p.csv", "p.tsv", "p.txt", "p.json", "p.jsonl", "p.parquet"):
        code, out, err = run("predict", "m.skops", "iris.csv", "-o", name)
        assert (code, out) == (0, "")
        assert f"150 predictions in {name}" in err
    assert Path("p.txt").read_text().split() == expected
    assert Path("p.csv").read_text().split()[1:] == expected
    assert json.loads(Path("p.json").read_text())["predictions"] == expected
    lines = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert [line["prediction"] for line in lines] == expected
    import pyarrow.parquet

    assert pyarrow.parquet.read_table("p.parquet")["prediction"].to_pylist() == expected
    assert parsed(run, "predict", "m.skops", "iris.csv")["predictions"] == expected
    _, out, _ = run("predict", "m.skops", "iris.csv", "--scores")
    assert out.splitlines()[0] == "prediction,score setosa,score versicolor,score virginica"
    row = [float(cell) for cell in out.splitlines()[1].split(",")[1:]]
    np.testing.assert_allclose(row, load("m.skops").decision_function(IRIS[0][:1])[0])
    run("fit", "iris.csv", "--estimator", "klr", "-o", "k.skops")
    _, out, _ = run("predict", "k.skops", "iris.csv", "--probabilities")
    assert out.splitlines()[0] == "prediction,P(setosa),P(versicolor),P(virginica)"


def test_other_formats_of_data(run):
    for name in ("iris.npz", "iris.svm"):
        assert run("fit", name, "-C", "10", "-o", "n.skops", "--force")[0] == 0
        for data in ("iris.npz", "iris.svm"):
            assert parsed(run, "score", "n.skops", data)["accuracy"] > 0.95
            assert run("verify", "n.skops", data)[0] == 0
    code, _, err = run("score", "m.skops", "iris.npz")
    assert code == 0
    assert "the model has no class 0" in err


def test_predict_streams(run, monkeypatch):
    monkeypatch.setattr("maxmargin.io.data._BLOCK", 512)
    sizes = []
    model = open_model("m.skops").model
    whole = type(model).predict
    monkeypatch.setattr(type(model), "predict", lambda s, X: sizes.append(len(X)) or whole(s, X))
    code, out, _ = run("predict", "m.skops", "iris.csv")
    assert code == 0
    assert len(out.splitlines()) == 151
    assert len(sizes) > 5
    assert max(sizes) < 40


# ---- files are safe ---------------------------------------------------------------------------


def test_nothing_is_overwritten_and_nothing_is_half(run, monkeypatch):
    before = Path("m.skops").read_bytes()
    for command in (("fit", "iris.csv", "-o", "m.skops"),
                    ("convert", "m.skops", "m.skops"),
                    ("predict", "m.skops", "iris.csv", "-o", "iris.csv"),
                    ("demo", "iris", "--write", "iris.csv")):  # fmt: skip
        code, _, err = run(*command)
        assert code == 2
        assert "exists; say --force" in err
    assert Path("m.skops").read_bytes() == before
    rows = Path("iris.csv").read_text().splitlines()
    Path("bad.csv").write_text("\n".join([*rows[:80], "1,2,x,4,setosa", *rows[80:]]))
    monkeypatch.setattr("maxmargin.io.data._BLOCK", 512)
    code, _, err = run("predict", "m.skops", "bad.csv", "-o", "p.csv")
    assert code == 2
    assert err.endswith("maxmargin: line 81: 'x' in column 'petal_length' is not a number.\n")
    assert not Path("p.csv").exists()
    assert not [p for p in Path().iterdir() if p.name.startswith(".")]


def test_ctrl_c_saves_the_model_so_far(run):
    """The signal comes between two chunks of the solver."""
    X, y = sklearn.datasets.make_classification(600, 20, flip_y=0.4, random_state=0)
    np.savez("hard.npz", X=X, y=y)
    step, steps = SMO.step, []

    def second_step(self, *arguments, **settings):
        steps.append(1)
        if len(steps) == 2:
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SMO, "step", second_step)
        code, out, err = run("fit", "hard.npz", "-C", "1e6", "--gap-tol", "1e-14",
                             "--max-time", "30", "-o", "n.skops", "--json")  # fmt: skip
    assert code == 130
    assert "stopped: the model so far is in n.skops" in err
    assert json.loads(out)["status"] == "interrupted"
    assert open_model("n.skops").about["certificate"]["status"] == "interrupted"
    assert run("score", "n.skops", "hard.npz")[0] == 0


def test_ctrl_c_before_there_is_a_model(run, monkeypatch):
    def at_once(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SVC, "fit", at_once)
    code, out, err = run("fit", "iris.csv", "-o", "n.skops")
    assert (code, out) == (130, "")
    assert "before there was a model" in err
    assert not Path("n.skops").exists()


# ---- wrong use --------------------------------------------------------------------------------

WRONG = {
    ("frobnicate",): "Unknown command",
    ("fit",): "DATA",
    ("fit", "nofile.csv"): "nofile.csv: no such file or directory",
    ("fit", "iris.csv", "-C", "ten"): "unable to convert",
    ("fit", "iris.csv", "-C", "-1"): "C",
    ("fit", "iris.csv", "--target", "nope"): "there is no column 'nope'",
    ("fit", "iris.csv", "--target", "9"): "positions are 1 to 5",
    ("fit", "iris.csv", "--kernel", "cubic"): "kernel",
    ("fit", "iris.csv", "--estimator", "tree"): "allowed are auto, svc",
    ("fit", "iris.csv", "--estimator", "svr"): "svr needs numbers to learn",
    ("fit", "iris.csv", "--nu", "0.5"): "SVC has no nu=0.5",
    ("fit", "iris.csv", "--gamma", "big"): "--gamma big: a number, scale or auto",
    ("fit", "iris.csv", "-o", "m.txt"): "extension",
    ("fit", "iris.csv", "-o", "no/m.skops"): "there is no folder",
    ("fit", "mixed.csv", "--libsvm", "-c 1"): "--libsvm needs numbers",
    ("fit", "iris.svm", "--libsvm", "-z 1"): "svm-train has no option -z",
    ("fit", "iris.svm", "--libsvm", "-c 1", "-C", "2"): "--libsvm takes the place",
    ("predict", "nofile.skops", "iris.csv"): "there is no file",
    ("predict", "m.skops", "iris.csv", "--probabilities"): "no probabilities",
    ("predict", "m.skops", "-"): "say --format",
    ("predict", "m.skops", "iris.csv", "-o", "p.xls"): "extension",
    ("predict", "iris.csv", "m.skops"): "extension",
    ("score", "m.skops", "iris.csv", "--target", "petal_width"): "is a feature of the model",
    ("verify", "m.skops", "iris.csv", "-C", "1"): "has its own C",
    ("explain", "m.skops", "iris.csv", "--row", "0"): "counted from 1",
    ("explain", "m.skops", "iris.csv", "--row", "151"): "has 150 rows",
    ("explain", "m.skops", "1,2"): "the row has 2 cells",
    ("explain", "m.skops", "what"): "neither a file nor a row",
    ("convert", "m.skops", "m.model"): "labels are integers",
    ("convert", "m.skops", "m.zip"): "extension",
    ("demo", "mnist"): "there are iris",
    ("bench", "--repeats", "0"): "--repeats",
    ("plot", "m.skops", "iris.csv", "--kind", "pie", "-o", "p.png"): "must be auto, margin",
    ("plot", "m.skops", "iris.csv", "--kind", "tube", "-o", "p.png"): "needs a regression",
    ("plot", "m.skops", "iris.csv", "-o", "p.xyz"): "extension",
    ("plot", "m.skops", "iris.csv", "-o", "p.png", "--dpi", "0"): "--dpi 0",
    ("plot", "m.skops", "--kind", "gram", "-o", "p.png"): "DATA",
    ("plot", "m.skops", "mixed.csv", "-o", "p.png"): "there is no column",
    ("plot", "m.skops", "few.csv", "-o", "p.png"): "not the data it was trained on",
    ("lab", "--port", "70000"): "--port 70000",
    ("explain", "m.skops", "1,x,3,4"): "'x' in column 'sepal_width' is not a number",
    ("fit", "one.csv"): "only one class",
    ("fit", "iris.csv", "-c", "1"): "-C",
    ("fit", "iris.csv", "iris.svm"): "'iris.svm'",
}


@pytest.mark.parametrize("command", WRONG, ids=" ".join)
def test_wrong_use_is_one_line_and_exit_2(run, command):
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("maxmargin: ")
    assert WRONG[command] in last
    assert "(--debug shows where)" not in last


def test_debug_shows_the_traceback(folder, capsys):
    assert main(["fit", "nofile.csv", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


# ---- verify -----------------------------------------------------------------------------------


def test_verify_does_not_believe_a_file(run):
    held = open_model("m.skops")
    machine = held.machine
    machine.dual_coef_ = machine.dual_coef_ * 0.5
    from maxmargin import save

    save(held, "half.skops")
    code, out, _ = run("verify", "half.skops", "iris.csv")
    assert code == 1
    assert out.startswith("NO: the file says optimal")
    told = json.loads(run("verify", "half.skops", "iris.csv", "--json")[1])
    assert told["holds"] is False
    assert told["proof"]["relative_gap"] > told["claim"]["relative_gap"]
    code, out, _ = run("verify", "m.skops", "iris.csv", "--gap-tol", "1e-20")
    assert code == 1
    moved = Path("iris.csv").read_text().replace("setosa", "virginica", 1)
    Path("moved.csv").write_text(moved)
    assert run("verify", "m.skops", "moved.csv")[0] == 1
    rows = Path("iris.csv").read_text().splitlines()
    Path("fewer.csv").write_text("\n".join(rows[:-1]))
    assert run("verify", "m.skops", "fewer.csv")[0] == 1


def test_verify_models_of_others(run):
    X, y = IRIS
    skops.io.dump(make_pipeline(StandardScaler(), sklearn.svm.SVC()).fit(X, y), "sk.skops")
    assert run("verify", "sk.skops", "iris.npz")[0] == 0
    assert run("verify", "sk.skops", "iris.npz", "--tol", "1e-9")[0] == 1
    joblib.dump(sklearn.svm.NuSVC(nu=0.2).fit(X, y), "sk.joblib")
    assert run("verify", "sk.joblib", "iris.npz")[0] == 2
    assert run("verify", "sk.joblib", "iris.npz", "--trust-pickle")[0] == 0
    assert run("convert", "sk.joblib", "sk2.skops", "--trust-pickle")[0] == 0
    assert run("verify", "sk2.skops", "iris.npz")[0] == 0
    loose = sklearn.svm.SVC(max_iter=5)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning):
        skops.io.dump(loose.fit(X, y), "loose.skops")
    assert run("verify", "loose.skops", "iris.npz")[0] == 1


def test_a_stopped_model_claims_no_more_than_it_proves(run):
    code, _, err = run("fit", "iris.csv", "--max-iter", "3", "--no-scale", "-o", "n.skops")
    if code == 0 and "max_iter" in err:
        assert run("verify", "n.skops", "iris.csv")[0] == 0


# ---- LIBSVM -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", ["-s 0 -t 2 -c 10 -g 0.1", "-s 0 -t 1 -d 2 -r 1 -w1 2 -e 1e-4",
                                     "-s 3 -p 0.05 -h 0", "-s 0", "-s 2 -n 0.2"])  # fmt: skip
def test_svm_trains_options_train_svm_trains_model(run, options):
    X, y = IRIS
    parameter, problem = svm.svm_parameter(f"{options} -q"), svm.svm_problem(y.astype(float), X)
    theirs = svmutil.svm_train(problem, parameter)
    svmutil.svm_save_model("theirs.model", theirs)
    assert run("fit", "iris.svm", "--libsvm", options, "-o", "ours.skops")[0] == 0
    assert run("convert", "ours.skops", "ours.model")[0] == 0
    first, second = load("theirs.model"), load("ours.model")
    assert first.gamma == pytest.approx(second.gamma, rel=1e-12)
    name = "decision_function" if hasattr(first, "decision_function") else "predict"
    np.testing.assert_allclose(getattr(first, name)(X), getattr(second, name)(X), atol=0.02)
    assert load_libsvm_model("ours.model").support_vectors.shape == (
        len(second.support_), 4,
    )  # fmt: skip


def test_svm_trains_precomputed_kernel(run):
    X, y = IRIS
    K = X @ X.T
    rows = [f"{c} 0:{k + 1} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(r))
            for k, (r, c) in enumerate(zip(K.tolist(), y.tolist(), strict=True))]  # fmt: skip
    Path("k.svm").write_text("\n".join(rows))
    assert run("fit", "k.svm", "--libsvm", "-t 4 -c 2", "-o", "k.skops")[0] == 0
    expected = SVC(kernel="precomputed", C=2).fit(K, y)
    np.testing.assert_array_equal(load("k.skops").predict(K), expected.predict(K))
    assert run("verify", "k.skops", "k.svm")[0] == 0
    assert parsed(run, "score", "k.skops", "k.svm")["accuracy"] == expected.score(K, y)
    assert run("convert", "k.skops", "k.model")[0] == 0
    Path("bad.svm").write_text("\n".join(reversed(rows)))
    assert "in order" in run("fit", "bad.svm", "--libsvm", "-t 4")[2]


def test_options_of_svm_train():
    read = libsvm_options("-s 1 -n 0.3 -m 50 -b 1 -h 0 -e 0.01", 8)
    assert read.estimator == "NuSVC"
    assert read.parameters == {
        "kernel": "rbf", "degree": 3, "gamma": 0.125, "coef0": 0.0, "tol": 0.01,
        "cache_size": 50.0, "shrinking": False, "nu": 0.3, "probability": True,
    }  # fmt: skip
    assert libsvm_options("-v 5", 2).folds == 5
    assert libsvm_options("-w1 2 -w-1 0.5", 2).parameters["class_weight"] == {1: 2.0, -1: 0.5}
    for wrong, said in {"-c": "needs a value", "c 1": "expected an option", "-s 7": "0 to 4",
                        "-c x": "a number", "-v 1": "at least 2", "-s 3 -b 1": "-b 1",
                        "-s 3 -w1 2": "C-SVC", "-d 1.5": "whole number"}.items():  # fmt: skip
        with pytest.raises(ValueError, match=said):
            libsvm_options(wrong, 2)


def test_cross_validation_of_svm_train(run):
    assert "Cross Validation Accuracy = " in run("fit", "iris.svm", "--libsvm", "-v 5")[1]
    told = parsed(run, "fit", "iris.svm", "--libsvm", "-s 3 -v 5 -q")
    assert next(iter(told)) == "r2"


def test_libsvm_models_in_every_command(run):
    run("fit", "iris.svm", "--libsvm", "-c 10", "-o", "a.skops")
    assert run("convert", "a.skops", "a.model")[0] == 0
    assert parsed(run, "score", "a.model", "iris.svm")["accuracy"] > 0.95
    assert run("verify", "a.model", "iris.svm", "-C", "10")[0] == 0
    assert run("verify", "a.model", "iris.svm", "-C", "1")[0] == 1
    code, _, err = run("verify", "a.model", "iris.svm")
    assert code == 2
    assert "holds no C" in err
    assert run("explain", "a.model", "1:5.1 2:3.5 3:1.4 4:0.2")[0] == 0
    assert run("convert", "a.model", "b.skops")[0] == 0
    assert parsed(run, "score", "b.skops", "iris.svm") == parsed(
        run, "score", "a.model", "iris.svm"
    )
    # Features beyond the largest index of the model count in its kernel, as in svm-predict.
    Path("wide.svm").write_text("0 1:5.1 2:3.5 3:1.4 4:0.2 9:30\n1 1:5\n")
    theirs = svmutil.svm_load_model("a.model")
    node, _ = svm.gen_svm_nodearray({1: 5.1, 2: 3.5, 3: 1.4, 4: 0.2, 9: 30})
    _, out, _ = run("predict", "a.model", "wide.svm", "--output-format", "txt")
    assert int(out.split()[0]) == int(svm.libsvm.svm_predict(theirs, node))


def test_scaling_becomes_a_range_file(run):
    run("fit", "iris.svm", "-o", "s.skops")
    assert run("convert", "s.skops", "s.model")[0] == 0
    assert Path("s.model.range").read_text().startswith("x\n-1 1\n1 ")
    options = ("--ranges", "s.model.range", "-o", "r.skops")
    assert run("fit", "iris.svm", "--libsvm", "-c 1 -g 0.25", *options)[0] == 0
    first, second = open_model("s.skops"), open_model("r.skops")
    X = IRIS[0]
    np.testing.assert_allclose(first.prepared(X), second.prepared(X), atol=1e-12)


# ---- explain, convert, doctor -----------------------------------------------------------------


def test_explain_a_row_of_a_file_or_as_typed(run):
    first = parsed(run, "explain", "m.skops", "iris.csv", "--row", "71")
    second = parsed(run, "explain", "m.skops", "5.9,3.2,4.8,1.8")
    assert first == second
    assert first["prediction"] == "versicolor"
    assert sum(v["vote"] for v in first["votes"]) != 0
    changed = first["nearest_change"]
    row = np.array([[5.9, 3.2, 4.8, 1.8]])
    names = open_model("m.skops").about["features"]
    for name, (_, value) in changed["features"].items():
        row[0, names.index(name)] = value
    assert load("m.skops").predict(row)[0] == changed["prediction"] != "versicolor"


def test_explain_a_row_with_a_missing_cell(run):
    run("fit", "mixed.csv", "-o", "n.skops")
    filled = parsed(run, "explain", "n.skops", "1.5,,0.2")
    assert filled["prediction"] in ("a", "b")
    run("fit", "mixed.csv", "--drop", "colour", "-o", "o.skops")  # an imputer and a scaler
    changed = parsed(run, "explain", "o.skops", ",0.2")["nearest_change"]
    assert set(changed["features"]) <= {"width", "size"}


def test_missing_cells_that_no_median_fills_are_refused_by_name(run):
    lines = Path("iris.csv").read_text().splitlines()
    Path("gaps.csv").write_text("\n".join([*lines[:2], "," + lines[2].split(",", 1)[1]]) + "\n")
    column = lines[0].split(",")[0]
    for command in ("predict", "score"):
        code, _, err = run(command, "m.skops", "gaps.csv")
        assert code == 2
        assert f"column '{column}' has a missing number" in err
    assert run("explain", "m.skops", "gaps.csv", "--row", "1")[0] == 0
    assert run("explain", "m.skops", "gaps.csv", "--row", "2")[0] == 2


def test_decimal_commas_are_no_categories(run):
    Path("comma.csv").write_text("a;b;target\n1,5;2,5;x\n1,7;3,5;y\n2,5;2,0;x\n3,1;2,2;y\n")
    code, _, err = run("fit", "comma.csv")
    assert code == 2
    assert "line 2: '1,5' in column 'a' is not a number. Write decimal points" in err
    assert run("fit", "comma.csv", "--categorical", "a", "--categorical", "b")[0] == 0


def test_data_in_the_place_of_the_model_is_told(run):
    code, _, err = run("predict", "iris.csv", "m.skops")
    assert code == 2
    assert "The model comes before the data." in err
    assert "--format" not in err


def test_search_prints_its_grid(run):
    grid = ("--Cs", "1,10,100", "--gammas", "0.01,0.123456")
    code, out, _ = run("search", "iris.csv", *grid)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["C", "\\", "gamma", "0.01", "0.1235"]
    assert [line.split()[0] for line in lines[1:4]] == ["1", "10", "100"]
    found = parsed(run, "search", "iris.csv", *grid)
    best = found["best_params"]
    row = lines[1 + [1.0, 10.0, 100.0].index(best["C"])].split()
    cell = row[1 + [0.01, 0.123456].index(best["gamma"])]
    assert cell == f"{found['best_score']:.4g}*"
    assert out.count("*") == 2
    assert {"params", "mean", "deviation"} == set(found["grid"][0])
    assert len(found["grid"]) == 6
    _, out, _ = run("search", "iris.csv", "--kernel", "linear", "--Cs", "1,2,3,4,5,6,7,8,9,10,11")
    assert out.splitlines()[0].split() == ["C", "mean", "deviation"]
    assert len(out.splitlines()) == 13
    assert "the best 10 of 11 cells" in out


def test_convert_there_and_back(run):
    for target in ("n.joblib", "n.onnx"):
        facts = parsed(run, "convert", "m.skops", target, "--data", "iris.csv")
        assert facts["written"] == [target]
        assert facts["largest_difference"] < 1e-5
        score = parsed(run, "score", target, "iris.csv", "--trust-pickle")
        assert score == parsed(run, "score", "m.skops", "iris.csv")
    assert "holds no coefficients" in run("verify", "n.onnx", "iris.csv")[2]
    assert "needs a fitted kernel machine" in run("explain", "n.onnx", "iris.csv")[2]
    code, _, err = run("convert", "n.onnx", "o.skops")
    assert code == 2
    assert "can only be run" in err


def test_convert_writes_both_libsvm_files_or_none(run):
    text = Path("iris.csv").read_text().replace(",0\n", ",a\n").replace(",1\n", ",b\n")
    Path("named.csv").write_text(text)
    assert run("fit", "named.csv", "-o", "named.skops")[0] == 0
    code, _, err = run("convert", "named.skops", "named.model")
    assert code == 2
    assert "labels are integers" in err
    assert not list(Path().glob("named.model*"))


def test_doctor_in_json(run):
    found = parsed(run, "doctor", "iris.csv", "--estimator", "nusvc", "--nu", "0.5")
    assert found["ok"] is True
    assert found["largest_nu"] == 1.0
    assert {f["name"] for f in found["findings"]} == {"cost", "duplicates"}
    assert parsed(run, "doctor", "one.csv")["ok"] is False


def test_demo_and_bench_tell_what_they_did(run):
    assert parsed(run, "demo", "wine")["wine"]["status"] == "optimal"
    told = parsed(run, "bench", "iris.csv", "--repeats", "1")
    assert told["maxmargin"]["relative_gap"] < 1e-2
    assert {"maxmargin", "scikit-learn", "ratio"} <= set(told)


def test_decimal_commas_are_no_classes(run):
    rows = [f"{k};{k},5" for k in range(120)]
    Path("german.csv").write_text("\n".join(["a;price", *rows]), encoding="utf-8")
    code, _, err = run("fit", "german.csv", "--target", "price")
    assert code == 2
    assert "line 2: '0,5' in column 'price' is not a number. Write decimal points." in err


def test_a_picture_needs_the_data(run):
    code, _, err = run("plot", "m.skops", "-o", "m.png")
    assert code == 2
    assert "--kind auto needs DATA" in err
    assert run("plot", "m.skops", "--kind", "convergence", "-o", "m.png")[0] == 0
