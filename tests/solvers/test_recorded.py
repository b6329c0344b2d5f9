"""Lines of operations, recorded where there is a GPU; simply run elsewhere."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from kernelsieve.solvers.recorded import AT_ONCE, Recorder, repeat  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(DEVICE)


def test_a_line_gives_what_it_gives_when_it_is_run():
    def line(a, b):
        factor = torch.linalg.cholesky_ex(a @ a.T + torch.eye(len(a), dtype=a.dtype, device=a.device))[0]
        return torch.linalg.solve_triangular(factor, b, upper=False), factor

    recorder, found = Recorder(), []
    for seed in range(8):
        n = (5, 9)[seed % 2]  # of each shape the first is run, the second recorded, the others played
        a, b = numbers(n, n, seed=seed), numbers(n, 3, seed=100 + seed)
        found.append((recorder.run(line, a, b), line(a, b)))
    for ours, truth in found:  # what was found first is not written over
        for mine, wanted in zip(ours, truth, strict=True):
            torch.testing.assert_close(mine, wanted, rtol=1e-12, atol=1e-12)


def test_arrays_may_lie_in_memory_as_they_like():
    recorder = Recorder()
    for seed in range(4):
        a = numbers(6, 8, seed=seed)[:, ::2]
        torch.testing.assert_close(recorder.run(lambda x: (x.T @ x,), a)[0], a.T @ a)


def test_a_line_that_asks_something_of_the_device_is_run():
    recorder = Recorder()
    for seed in range(4):
        a = numbers(4, 4, seed=seed)
        found = recorder.run(lambda x: (x * float(x.sum()),), a)
        torch.testing.assert_close(found[0], a * a.sum())


@pytest.mark.parametrize("n_times", [0, 1, AT_ONCE, 2 * AT_ONCE, 2 * AT_ONCE + 1, 3 * AT_ONCE + 7])
def test_a_line_is_repeated_so_many_times(n_times):
    count, powers = torch.zeros(1, device=DEVICE), torch.ones(1, dtype=torch.float64, device=DEVICE)

    def line():
        count.add_(1)
        powers.mul_(0.9)

    repeat(line, n_times, count)
    assert float(count) == n_times
    assert float(powers) == pytest.approx(0.9**n_times, rel=1e-12)


def test_what_was_recorded_goes_with_its_recorder():
    if DEVICE == "cpu":
        pytest.skip("nothing is recorded on the host")
    before = []
    for _ in range(6):  # memory of recordings is used again
        recorder = Recorder()
        for _ in range(3):
            recorder.run(lambda x: (x @ x,), numbers(1000, 1000))
        before.append(torch.cuda.memory_reserved())
    assert before[-1] == before[1]
