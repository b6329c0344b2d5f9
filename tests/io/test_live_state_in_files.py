"""What goes on when more rows come, changed in a file that is well sealed: it is refused when it is loaded."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelsieve as ks
from kernelsieve.io import ModelFileError
from kernelsieve.io.container import header_digest

ROWS = np.random.default_rng(0).standard_normal((60, 3))
RULES = ("coherence", "hebbian", "subset", "incremental")
Change = Callable[[dict[str, Any]], None]


def resealed(path: Path, change: Change) -> None:
    """Change the header of a model file and give it the digest that belongs to it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("header.json"))
    change(header)
    header["sha256"] = header_digest({key: value for key, value in header.items() if key != "sha256"})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in {**members, "header.json": json.dumps(header).encode()}.items():
            archive.writestr(name, data)
    path.write_bytes(buffer.getvalue())


def put(*place: Any, value: Any) -> Change:
    """The change that puts a value at a place of the header."""

    def change(header: dict[str, Any]) -> None:
        node: Any = header
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = value

    return change


def swapped(one: str, other: str) -> Change:
    """Two arrays of what an online rule keeps, exchanged."""

    def change(header: dict[str, Any]) -> None:
        rule = header["state"]["_online"]["rule"]
        rule[one], rule[other] = rule[other], rule[one]

    return change


ONLINE = [
    put("state", "_online", "points", value="nan"),
    put("state", "_online", "numbers", value=None),
    put("state", "_online", "n_evaluations", value=-1),
    put("state", "_online", "rule", "weight", value=0.0),
    put("state", "_online", "rule", value={}),
    put("state", "_online", value={}),
    put("state", "_kernel", value={"$kernel": {"name": "rbf", "params": {"gamma": 1.0}}}),
    put("state", "_kernel", value="rbf"),
    put("state", "_ready", value=False),
    put("state", "_kept", "$record", "fields", "size", value=0),
    put("state", "_kept", "$record", "fields", "weight", value=-1.0),
    put("state", "_kept", "$record", "fields", "n_seen", value=3),
    put("state", "_settled", "center", value=False),
    put("params", "n_components", value=3),
    put("params", "rule", value="other"),
]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("number", range(len(ONLINE)))
def test_an_online_rule_that_could_not_go_on_is_not_loaded(rule: str, number: int, tmp_path: Path) -> None:
    path = tmp_path / "model.ks"
    ks.OnlineKernelPCA(2, rule=rule, gamma=0.3, budget=15, random_state=0).partial_fit(ROWS).save(path)
    resealed(path, lambda header: None)
    assert ks.load(path).partial_fit(ROWS).transform(ROWS).shape == (60, 2)
    resealed(path, ONLINE[number])
    with pytest.raises(ModelFileError):
        ks.load(path)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("subset", swapped("lower", "scatter")),
        ("subset", swapped("lower", "mean")),
        ("coherence", swapped("coef", "lower")),
        ("hebbian", swapped("gram", "coef")),
        ("incremental", swapped("values", "mean")),
    ],
)
def test_arrays_of_a_rule_that_changed_places_are_not_loaded(rule: str, change: Change, tmp_path: Path) -> None:
    path = tmp_path / "model.ks"
    ks.OnlineKernelPCA(2, rule=rule, gamma=0.3, budget=15, random_state=0).partial_fit(ROWS).save(path)
    resealed(path, change)
    with pytest.raises(ModelFileError):
        ks.load(path)


@pytest.mark.parametrize("rule", RULES)
def test_a_loaded_rule_goes_on_as_the_saved_one_does(rule: str, tmp_path: Path) -> None:
    model = ks.OnlineKernelPCA(2, rule=rule, gamma=0.3, budget=15, half_life=40.0, random_state=0).partial_fit(ROWS)
    model.save(tmp_path / "model.ks")
    loaded = ks.load(tmp_path / "model.ks").partial_fit(ROWS[::-1])
    np.testing.assert_array_equal(loaded.transform(ROWS), model.partial_fit(ROWS[::-1]).transform(ROWS))


@pytest.mark.parametrize(
    "change",
    [
        put("state", "_live", value=None),
        put("state", "_live", "$record", "fields", "number", value=-1),
        put("params", "alarm_rule", value={"$tuple": [1, "x"]}),
        put("params", "alarm_rule", value={"$tuple": [True, True]}),
        put("params", "alarm_rule", value={"$tuple": [1]}),
        put("params", "smoothing", value=1e-300),
        put("state", "_smoothing", value=-1.0),
    ],
)
def test_a_monitor_that_could_not_go_on_is_not_loaded(change: Change, tmp_path: Path) -> None:
    path = tmp_path / "monitor.ks"
    ks.KernelMonitor(2, 8, smoothing=0.3, alarm_rule=(1, 2), random_state=0).fit(ROWS).save(path)
    resealed(path, change)
    with pytest.raises(ModelFileError):
        ks.load(path)


def test_a_million_threads_are_as_many_as_a_machine_starts(tmp_path: Path) -> None:
    path = tmp_path / "model.ks"
    model = ks.KernelPCA(2, kernel="rbf", random_state=0).fit(ROWS)
    model.save(path)
    resealed(path, put("params", "n_jobs", value=1_000_000))
    np.testing.assert_allclose(ks.load(path).transform(ROWS), model.transform(ROWS), atol=1e-12)


def test_a_file_that_the_system_makes_up_while_it_is_read_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "empty.ks").touch()
    for path in (tmp_path / "empty.ks", "/proc/self/mem", "/proc/self/environ"):
        if Path(path).exists():
            with pytest.raises(ModelFileError, match="empty, not a kernelsieve model file"):
                ks.load(path)


def test_after_fit_an_online_rule_starts_anew_and_says_so() -> None:
    model = ks.OnlineKernelPCA(2, gamma=0.3, random_state=0).fit(ROWS)
    with pytest.warns(UserWarning, match="starts anew, without those rows"):
        model.partial_fit(ROWS[:40])
    fresh = ks.OnlineKernelPCA(2, gamma=0.3, random_state=0).partial_fit(ROWS[:40])
    assert model.n_samples_seen_ == 40
    np.testing.assert_array_equal(model.transform(ROWS), fresh.transform(ROWS))


def test_a_sample_of_rows_that_was_drawn_with_another_memory_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.ks"
    for model, place in (
        (ks.OnlineKernelPCA(2, gamma=0.3, random_state=0), ("state", "_kept")),
        (ks.SparseKernelPCA(2, n_support=8, random_state=0), ("state", "_stream", "$record", "fields", "reservoir")),
    ):
        model.partial_fit(ROWS).save(path)
        resealed(path, put(*place, "$record", "fields", "rate", value=1e308))
        with pytest.raises(ModelFileError, match="cannot come from a stream"):
            ks.load(path)
        model.save(path)
        # of a rate so small that the weights do not show it
        resealed(path, put(*place, "$record", "fields", "rate", value=1e-9))
        with pytest.raises(ModelFileError, match="was not drawn with half_life=None"):
            ks.load(path)


@pytest.mark.parametrize("weight", [0, 1e-3, 1e308, -1.0])
@pytest.mark.parametrize("size", [40, None])  # fewer rows than came, and all of them
def test_a_sample_that_weighs_other_than_its_rows_is_not_loaded(
    weight: float, size: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "model.ks"
    for model, place in (
        (ks.OnlineKernelPCA(2, gamma=0.3, random_state=0), ("state", "_kept")),
        (
            ks.SparseKernelPCA(2, n_support=8, n_optimization_samples=size, random_state=0),
            ("state", "_stream", "$record", "fields", "reservoir"),
        ),
    ):
        model.partial_fit(ROWS).save(path)
        assert ks.load(path).n_samples_seen_ == len(ROWS)
        resealed(path, put(*place, "$record", "fields", "weight", value=weight))
        with pytest.raises(ModelFileError, match=r"cannot come from a stream|are of different streams"):
            ks.load(path)


@pytest.mark.parametrize("value", [[1, 2], {"rule": {}}, [["a", "b", "c"]]])
def test_a_stream_whose_points_could_not_be_chosen_again_is_not_loaded(value: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.ks"
    ks.SparseKernelPCA(2, n_support=8, random_state=0).partial_fit(ROWS).save(path)
    resealed(path, put("params", "selection", value=value))
    with pytest.raises(ModelFileError, match=r"cannot go on|parameters do not fit"):
        ks.load(path)


@pytest.mark.parametrize(
    ("place", "value", "said"), [(("state", "gamma_"), 0.0, "gamma=0.0"), (("params", "n_swaps"), 1, "n_swaps=1 means")]
)
def test_a_stream_that_could_not_follow_its_last_choice_is_not_loaded(
    place: tuple[str, str], value: float, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.ks"
    ks.SparseKernelPCA(2, n_support=8, random_state=0).partial_fit(ROWS).save(path)
    resealed(path, put(*place, value=value))
    with pytest.raises(ModelFileError, match=f"cannot go on: .*{said}"):
        ks.load(path)
    swapped = ks.SparseKernelPCA(2, kernel="sigmoid", gamma=0.01, n_support=8, n_swaps=1, random_state=0)
    swapped.partial_fit(ROWS).save(path)
    ks.load(path).partial_fit(ROWS)


def test_a_sample_that_left_out_rows_drawn_before_its_own_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "model.ks"
    ks.OnlineKernelPCA(2, gamma=0.3, random_state=0).partial_fit(ROWS).save(path)
    resealed(path, put("state", "_kept", "$record", "fields", "dropped", value=1e308))
    with pytest.raises(ModelFileError, match="cannot come from a stream"):
        ks.load(path)


def test_a_stream_without_the_kind_of_its_ratio_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "model.ks"
    ks.SparseKernelPCA(2, n_support=8, random_state=0).partial_fit(ROWS).save(path)
    resealed(path, lambda header: header["state"].pop("captured_ratio_kind_"))
    assert ks.load(path).partial_fit(ROWS[:5]).n_samples_seen_ == 65
