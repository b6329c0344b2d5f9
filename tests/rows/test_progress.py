"""How far a pass over blocks has come: printed, and told to scikit-learn's callbacks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from stream_cases import SAMPLE, N, model

from kernelsieve import OnlineKernelPCA

POINTS = {"selection": np.arange(0, N, 150), "gamma": 0.2}


def cut(rows, size=10):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


class Recorder:
    """A callback that notes every task, how deep it lies, and what is said with it."""

    def __init__(self, stop_at=None):
        self.events, self.stop_at = [], stop_at

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, *, metadata=None):
        self._note("begin", context, metadata)

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self._note("end", context, metadata)

    def _note(self, kind, context, metadata):
        depth, parent = 0, context.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        self.events.append((kind, depth, context.task_name, metadata))
        if metadata and metadata["n_rows"] == self.stop_at:
            raise KeyboardInterrupt


def recorded(X, stop_at=None, **options):
    pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")
    recorder = Recorder(stop_at)
    return recorder, model(**POINTS, **options).set_callbacks(recorder).fit(X)


def counts(recorder):
    """The rows and the length that each pass told of."""
    passes = []
    for kind, depth, _, told in recorder.events:
        if depth == 2 and kind == "begin":
            passes.append([])
        if depth == 3 and kind == "end":
            passes[-1].append((told["n_rows"], told["n_total"]))
    return passes


def test_callbacks_see_every_hundredth_of_a_known_length(rows):
    recorder, _ = recorded(cut(rows))
    (told,) = counts(recorder)  # the sample of a list is no pass
    assert len(told) == 100
    assert told[0] == (20, N)  # the second block completes the first hundredth
    assert told[-1] == (N, N)
    assert [depth for _, depth, _, _ in recorder.events].count(3) == 200
    begun = [event for event in recorder.events if event[0] == "begin"]
    assert len(begun) * 2 == len(recorder.events)


def test_the_second_pass_knows_its_length(rows):
    recorder, _ = recorded(lambda: iter(cut(rows)))
    first, second = counts(recorder)
    assert all(total is None for _, total in first)
    assert 20 < len(first) < 100  # ten for each doubling, as far as blocks of ten rows allow
    assert first[-1][0] > 0.9 * N
    assert second[-1] == (N, N)
    assert len(second) == 100


def test_the_model_is_the_same_to_the_bit_whoever_listens(rows):
    for X in (cut(rows), lambda: iter(cut(rows))):
        silent = model(**SAMPLE).fit(X)
        recorder, _ = recorded(X)
        assert recorder.events
        watched = model(**SAMPLE).set_callbacks(Recorder()).fit(X)
        np.testing.assert_array_equal(watched.dual_coef_, silent.dual_coef_)


def test_a_callback_that_interrupts_leaves_the_model_as_it_was(rows):
    pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")
    fitted = model(**POINTS).fit(rows)
    before = fitted.transform(rows)
    with pytest.raises(KeyboardInterrupt):
        fitted.set_callbacks(Recorder(stop_at=900)).fit(cut(rows))
    np.testing.assert_array_equal(fitted.transform(rows), before)


def test_scikit_learns_bar_runs_over_blocks(rows, capsys):
    callback = pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")
    pytest.importorskip("rich")
    for X in (cut(rows), lambda: iter(cut(rows))):
        model(**POINTS).set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X)
        assert "rows" in capsys.readouterr().out


def test_verbose_prints_tenths_of_a_known_length(rows, capsys):
    model(**POINTS, verbose=True).fit(cut(rows))
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if " of " in line]
    assert len(told) == 10
    assert re.fullmatch(
        r"SparseKernelPCA: components: 150 of 1,500 rows \(10 %\), [\d,.]+ rows a second, [\d.]+ s left", told[0]
    )
    assert re.fullmatch(r"SparseKernelPCA: components: 1,500 of 1,500 rows \(100 %\), [\d,.]+ rows a second", told[-1])
    assert [line.rpartition(" took ")[0] for line in lines if " took " in line] == [
        "SparseKernelPCA: choose points",
        "SparseKernelPCA: components",
        "SparseKernelPCA: report",
    ]


def test_verbose_prints_rows_a_second_where_the_length_is_unknown(rows, capsys):
    model(**POINTS, verbose=True).fit(lambda: iter(cut(rows)))
    told = [line for line in capsys.readouterr().out.splitlines() if "choose points: " in line]
    assert all(re.fullmatch(r"SparseKernelPCA: choose points: [\d,]+ rows, [\d,.]+ rows a second", x) for x in told)
    assert len(told) == 8  # 10 rows, and each doubling past a power of two up to 1,024


def test_a_fit_says_nothing_unless_asked(rows, capsys):
    model(**POINTS).fit(cut(rows))
    assert not capsys.readouterr().out


@pytest.mark.parametrize("estimator", [model(), OnlineKernelPCA(3, budget=12, gamma=0.2, random_state=0)])
def test_a_stream_of_blocks_is_told_too(estimator, rows, capsys):
    estimator.set_params(verbose=True).partial_fit(iter(cut(rows)))
    name = type(estimator).__name__
    told = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{name}: partial_fit: [\d,]+ rows, [\d,.]+ rows a second", told[0])
    estimator.partial_fit(cut(rows))
    assert "1,500 of 1,500 rows (100 %)" in capsys.readouterr().out


def test_weights_of_another_number_than_rows_are_refused_as_before(rows):
    with pytest.raises(ValueError, match=r"sample_weight has 15 values, the stream has 1500 rows"):
        model(**POINTS, verbose=True).fit(lambda: iter(cut(rows)), sample_weight=np.ones(15))
