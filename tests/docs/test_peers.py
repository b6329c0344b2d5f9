"""The race against other packages: what is written down of it. The race itself is run by `make peers`."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

from benchmarks import peers_features, peers_page


@pytest.fixture
def peers(monkeypatch):
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")  # the module sets them for the whole process
    return importlib.import_module("benchmarks.peers")


def test_the_page_of_the_race_and_the_home_page_show_the_race_that_is_kept():
    found = peers_page.Results(json.loads(peers_page.RESULTS.read_text(encoding="utf-8")))
    assert peers_page.PAGE.read_text(encoding="utf-8") == peers_page.page(found)
    assert peers_page.HOME.read_text(encoding="utf-8") == peers_page.home_table(found)


def test_a_contestant_that_fails_is_written_down_with_its_message_and_the_others_go_on(peers, monkeypatch):
    def broken(rows, m, task, seed):
        raise RuntimeError("no such luck")

    ours = peers.PEERS[0]
    bad = peers.Peer("broken", "", broken, ours.components)
    monkeypatch.setattr(peers, "TURNS", 1)
    monkeypatch.setattr(peers, "SHORT", 1e-9)
    rows = np.random.default_rng(0).standard_normal((60, 4))
    table = peers.Table(lambda: peers.Split("small", rows[:40], rows[40:]), n_components=2, sizes=(15,))
    cells = peers.raced(peers.Race("small", table), [bad, ours])
    assert [(cell["peer"], cell.get("error")) for cell in cells] == [
        ("broken", "RuntimeError: no such luck"),
        ("kernelsieve", None),
    ]
    assert 0.9 < cells[1]["share"] <= 1.05


def test_a_ratio_to_ours_that_doubles_from_one_run_to_the_next_is_seen(peers):
    def results(theirs):
        ours = {"data": "t", "peer": "kernelsieve", "points": 50, "fit": 2.0}
        return {"cells": [ours, {"data": "t", "peer": "other", "points": 50, "fit": theirs}]}

    assert peers.changes(results(1.0), results(2.0))["fit"] == [(2.0, "t, other, 50")]


def test_a_comparison_of_two_runs_names_the_largest_change_of_every_measure(peers, monkeypatch, tmp_path, capsys):
    def results(fit, row, share):
        ours = {"data": "t", "peer": "kernelsieve", "points": 50, "fit": 2.0, "row": 1.0, "share": 0.99}
        exact = {"data": "t", "peer": "exact", "points": 0, "fit": 1.0, "share": 1.0}
        return {
            "cells": [
                ours,
                exact,
                {"data": "t", "peer": "k-means", "points": 50, "fit": fit, "row": row, "share": share},
            ]
        }

    paths = [tmp_path / "one.json", tmp_path / "other.json"]
    for path, found in zip(paths, (results(1.0, 1.0, 0.98), results(1.5, 1.05, 0.97)), strict=True):
        path.write_text(json.dumps(found))
    monkeypatch.setattr("sys.argv", ["peers", "--compare", *map(str, paths)])
    peers.main()
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("fit: 2 ratios, ")
    assert "1 by a tenth or more; most: t, k-means, 50 50.0%; t, exact, 0 0.0%" in said[0]
    assert "row: 1 ratios, " in said[1]
    assert "0 by a tenth or more; most: t, k-means, 50 5.0%" in said[1]
    assert said[2] == (
        "share: 3 cells, 1 by over 0.001; most: t, k-means, 50 0.0100; t, kernelsieve, 50 0.0000; t, exact, 0 0.0000"
    )


def test_a_table_that_is_run_again_is_compared_with_its_results_that_were_kept(peers, monkeypatch, tmp_path, capsys):
    def results(table, theirs):
        ours = {"data": table, "peer": "kernelsieve", "points": 50, "fit": 2.0, "share": 0.99}
        return [ours, {"data": table, "peer": "k-means", "points": 50, "fit": theirs, "share": 0.98}]

    kept = {"data": [{"name": "cancer"}, {"name": "digits"}], "beside": [], "skipped": {}, "text": []}
    path = tmp_path / "PEERS.json"
    path.write_text(json.dumps({**kept, "cells": results("cancer", 1.0) + results("digits", 1.0)}))
    monkeypatch.setattr(peers, "RESULTS", path)
    monkeypatch.setattr(peers, "installed", lambda contestants: ([], {}))
    found = {"data": [{"name": "digits"}], "cells": results("digits", 1.5), "beside": []}
    monkeypatch.setattr(peers, "run_table", lambda name, ready: found)
    monkeypatch.setattr(peers.peers_page, "write", lambda results: None)
    monkeypatch.setattr("sys.argv", ["peers", "--only", "digits"])
    peers.main()
    said = capsys.readouterr().out
    assert "fit: 1 ratios, median change 50.0%" in said
    assert "share: 2 cells, 0 by over 0.001" in said
    assert len(json.loads(path.read_text())["cells"]) == 4


def test_every_line_of_a_picture_is_in_its_legend():
    """A contestant that takes part in the first table only is named, too."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2)
    panels[0].plot([1, 2], label="in one table")
    for ax in panels:
        ax.plot([2, 1], label="in both")
    names = peers_page.legend_of(panels)[1]
    plt.close(figure)
    assert sorted(names) == ["in both", "in one table"]


def test_pictures_are_not_in_the_fonts_that_a_contestant_sets_when_it_is_imported(monkeypatch):
    import matplotlib.figure
    import matplotlib.pyplot as plt

    cell = {"data": "t", "peer": "kernelsieve", "points": 20, "share": 0.99, "fit": 1.0, "transform": 1.0}
    results = {"data": [{"name": "t", "components": 10, "few": False}], "cells": [cell], "missing": {}}
    families = []
    monkeypatch.setattr(
        matplotlib.figure.Figure,
        "savefig",
        lambda figure, *rest, **options: families.extend(figure.axes[0].title.get_fontfamily()),
    )
    with plt.rc_context({"font.family": "serif"}):
        peers_page.draw(peers_page.Results(results))
    assert set(families) == {"sans-serif"}


def test_answers_of_a_contestant_that_is_not_installed_are_those_of_an_earlier_run():
    yes, no, untried = ({"answer": answer, "because": ""} for answer in ("yes", "no", peers_features.NOT_TRIED))
    found = {"strings": {"kernlab": untried, "UMAP": no}, "new": {"kernlab": untried}}
    kept = peers_features.with_earlier(found, {"strings": {"kernlab": yes, "UMAP": yes}})
    assert kept == {"strings": {"kernlab": yes, "UMAP": no}, "new": {"kernlab": untried}}


def test_the_answers_that_are_kept_are_to_the_questions_of_today():
    kept = json.loads(peers_features.RESULTS.read_text(encoding="utf-8"))
    assert list(kept) == list(peers_features.PROBES)
    for feature, probes in peers_features.PROBES.items():
        assert list(kept[feature]) == list(peers_features.WHO)
        for who, cell in kept[feature].items():
            if cell["answer"] == "yes":
                assert cell["because"] == probes[who].removeprefix("R: ")
            else:
                assert (cell["answer"] == peers_features.EXACT) == (probes.get(who) == peers_features.EXACT)
                assert cell["answer"] in ("no", peers_features.EXACT)
