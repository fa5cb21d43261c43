"""The command search, over maxmargin.SVCCV and SVRCV."""

import json

from sklearn.datasets import load_iris

from maxmargin.cli import main
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
