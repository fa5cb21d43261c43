"""The command search, over maxmargin.SVCCV and SVRCV."""

import json

import pytest
from sklearn.datasets import load_iris

import maxmargin
from maxmargin.cli import main
from maxmargin.io import open_model

pytestmark = pytest.mark.skipif(
    "SVCCV" not in maxmargin.__all__, reason="maxmargin.SVCCV is not part of this checkout"
)


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
