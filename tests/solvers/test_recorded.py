"""Lines of operations, recorded where there is a GPU; simply run elsewhere."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from kernelsieve.spectrum.cuda_graphs import KEPT, LINE_REPEATS, recorded, repeat  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(DEVICE)


def test_a_line_gives_what_it_gives_when_it_is_run():
    def line(a, b):
        factor = torch.linalg.cholesky_ex(a @ a.T + torch.eye(len(a), dtype=a.dtype, device=a.device))[0]
        return torch.linalg.solve_triangular(factor, b, upper=False), factor

    found = []
    for seed in range(8):
        n = (5, 9)[seed % 2]  # of each shape the first is recorded, all are played
        a, b = numbers(n, n, seed=seed), numbers(n, 3, seed=100 + seed)
        found.append((recorded("test line", line, a, b), line(a, b)))
    for ours, truth in found:  # what was found first is not written over
        for mine, wanted in zip(ours, truth, strict=True):
            torch.testing.assert_close(mine, wanted, rtol=1e-12, atol=1e-12)


def test_arrays_may_lie_in_memory_as_they_like():
    for seed in range(4):
        a = numbers(6, 8, seed=seed)[:, ::2]
        torch.testing.assert_close(recorded("test memory", lambda x: (x.T @ x,), a)[0], a.T @ a)


def test_a_line_that_asks_something_of_the_device_is_run():
    for seed in range(4):
        a = numbers(4, 4, seed=seed)
        found = recorded("test asks", lambda x: (x * float(x.sum()),), a)
        torch.testing.assert_close(found[0], a * a.sum())


def test_lines_of_different_keys_are_different_lines():
    a = numbers(5, 5)
    for factor in [*range(2 * KEPT), *range(2 * KEPT)]:  # more than are kept: those that went are recorded again
        found = recorded(("test factor", factor), lambda x, factor=factor: (factor * x,), a)
        torch.testing.assert_close(found[0], factor * a)


@pytest.mark.parametrize("n_times", [0, 1, LINE_REPEATS, 2 * LINE_REPEATS, 2 * LINE_REPEATS + 1, 3 * LINE_REPEATS + 7])
@pytest.mark.parametrize("rate", [0.9, 0.5])
def test_a_line_is_repeated_so_many_times(n_times, rate):
    count, powers = torch.zeros(1, device=DEVICE), torch.ones(1, dtype=torch.float64, device=DEVICE)

    def line(count, powers, rate):
        count.add_(1)
        powers.mul_(rate)

    repeat("test repeat", line, n_times, count, powers, torch.full((1,), rate, dtype=torch.float64, device=DEVICE))
    assert float(count) == n_times
    assert float(powers) == pytest.approx(rate**n_times, rel=1e-12)


def test_memory_of_recordings_is_used_again():
    if DEVICE == "cpu":
        pytest.skip("nothing is recorded on the host")
    held = []
    for turn in range(4):
        for k in range(KEPT):
            recorded(("test memory", turn, k), lambda x: (x @ x,), numbers(1000, 1000))
        held.append(torch.cuda.memory_reserved())
    assert held[-1] == held[1]
