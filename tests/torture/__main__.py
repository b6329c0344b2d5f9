"""The command: which campaigns, how many cases, which seed."""

from __future__ import annotations

import os

# One BLAS thread a process: the cases are small, and there are as many processes as cores.  Before numpy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import secrets
import sys
import time
from importlib import import_module

from .campaign import CLEAR, FAULT, OK, case_rng, run_campaign, run_case

# Each campaign with its full number of cases, its share of a slice, and how many processes run it at once.
CAMPAIGNS = {
    "fits": (10_000, 0.40, None),
    "files": (10_000, 0.20, None),
    "interrupts": (1_000, 0.12, None),
    "kills": (100, 0.08, None),
    "workers": (20, 0.06, 1),
    "forks": (10, 0.04, 1),
    "commands": (300, 0.10, None),
}


def main() -> int:
    """Run what was asked for; 1 where anything was at fault."""
    parser = argparse.ArgumentParser(prog="python -m torture", description="Seeded fault campaigns.")
    parser.add_argument("campaigns", nargs="*", choices=[[], *CAMPAIGNS], default=[])
    parser.add_argument("--seed", type=int, default=None, help="of all cases; by default a new one")
    parser.add_argument("--cases", type=int, default=None, help="of each campaign, in place of its full number")
    parser.add_argument("--seconds", type=float, default=None, help="for all campaigns together")
    parser.add_argument("--only", default=None, metavar="N,N", help="these cases again, one by one, with tracebacks")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    chosen = given.campaigns or list(CAMPAIGNS)
    if given.only is not None:
        if given.seed is None or len(chosen) > 1:
            parser.error("--only needs the name of one campaign and its seed")
        return _again(chosen[0], seed, [int(number) for number in given.only.split(",")])
    share = sum(CAMPAIGNS[name][1] for name in chosen)
    n_faults = 0
    for name in chosen:
        full, weight, n_processes = CAMPAIGNS[name]
        cases = list(range(full if given.cases is None else given.cases))
        seconds = None if given.seconds is None else given.seconds * weight / share
        started = time.monotonic()
        tally = run_campaign(name, seed, cases, n_processes or given.jobs, seconds)
        for line in tally.lines(seed):
            print(line, flush=True)
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
        n_faults += tally.counts[FAULT]
    return 1 if n_faults else 0


def _again(name: str, seed: int, numbers: list[int]) -> int:
    module = import_module(f"{__package__}.{name}")
    outcomes = []
    with module.session() as attempt:
        for number in numbers:
            if hasattr(module, "described"):
                print(f"case {number}: {module.described(case_rng(name, seed, number))}")
            started = time.monotonic()
            outcome = run_case(name, attempt, seed, number)
            print(f"case {number}: {outcome.kind}  {outcome.detail}  ({time.monotonic() - started:.1f} s)", flush=True)
            outcomes.append(outcome.kind)
    assert set(outcomes) <= {OK, CLEAR, FAULT}
    return int(FAULT in outcomes)


if __name__ == "__main__":
    sys.exit(main())
