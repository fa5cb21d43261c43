"""The command search, over maxmargin.SVCCV and SVRCV."""

import json

from sklearn.datasets import load_iris

from maxmargin.cli import main
from maxmargin.estimators import _task
from maxmargin.io import open_model


def test_search_finds_and_saves_the_best(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "iris", "--write", "iris.csv", "-q"]) == 0
    capsys.readouterr()
    grid = ["--Cs", "0.1,1,10", "--gammas", "0.01,0.1,1"]
    assert main(["search", "iris.csv", *grid, "-o", "b.skops", "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["grid"]) == 9
    assert told["best_score"] == max(one["mean"] for one in told["grid"])
    held = open_model("b.skops")
    assert held.about["search"]["best_score"] == told["best_score"]
    assert held.machine.certificate_.status == "optimal"
    assert held.model.predict(load_iris().data[:1])[0] == "setosa"
    assert main(["verify", "b.skops", "iris.csv"]) == 0
    assert main(["search", "iris.csv", "--Cs", "a"]) == 2


def test_search_says_where_the_grid_ends_too_early(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "iris", "--write", "iris.csv", "-q"]) == 0
    capsys.readouterr()
    assert main(["search", "iris.csv", "--Cs", "0.01,0.1,1", "--gammas", "0.001,0.1,100"]) == 0
    told = capsys.readouterr().out
    assert "C = 1 is an edge of the grid: try larger ones." in told
    assert "gamma = 0.1 is an edge" not in told


def test_search_says_what_has_no_score_or_is_not_allowed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "iris", "--write", "iris.csv", "-q"]) == 0
    capsys.readouterr()
    grid = ["--Cs", "1", "--gammas", "0.1"]
    assert main(["search", "iris.csv", *grid, "--scoring", "roc_auc"]) == 2
    told = capsys.readouterr().err
    assert "no cell has a score" in told
    assert "Traceback" not in told
    assert main(["search", "iris.csv", "--kernel", "foo"]) == 2
    assert "allowed are linear, poly, rbf, sigmoid." in capsys.readouterr().err
    assert main(["search", "iris.csv", "--cv", "1"]) == 2
    assert "at least 2 folds" in capsys.readouterr().err
    assert main(["search", "iris.csv", "--Cs", "inf", "--gammas", "0.1", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["best_params"]["C"] == "inf"


def test_search_tells_what_ctrl_c_leaves(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "iris", "--write", "iris.csv", "-q"]) == 0
    capsys.readouterr()
    noted, calls = _task.Task._noted, []

    def pressed(self, *given):
        calls.append(1)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return noted(self, *given)

    monkeypatch.setattr(_task.Task, "_noted", pressed)
    assert main(["search", "iris.csv", "--Cs", "1,10", "-o", "m.skops", "--json"]) == 130
    found = capsys.readouterr()
    told = json.loads(found.out)
    assert sum(one["mean"] is not None for one in told["grid"]) == 6
    assert told["model"] is None
    assert not (tmp_path / "m.skops").exists()
    assert "no model" in found.err
