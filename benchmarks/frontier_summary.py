"""What the cells of the frontier add up to."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np

CLOSE, FAR = 0.001, 0.01  # of training ratio below the best other rule: rarely, never
N_WORST = 25
# of the numbers of points over seeds; of "auto" beside a fit that is given its number
MOST_SPREAD, MOST_COST = 1.5, 2.5
FEW_POINTS = 7  # up to so many differ by what is hardly a cost


def summarise(results: list[dict[str, Any]]) -> None:
    by_cell: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for result in results:
        by_cell[result["cell"]][result["rule"]] = result
    default = [rules["default"] for rules in by_cell.values() if "default" in rules]
    never_worse(by_cell)
    never_less_with_more([r for r in default if "train" in r])
    honest([r for r in default if "ratio" in r])
    held_out([r for r in default if "test" in r])


def never_worse(by_cell: dict[str, dict[str, dict[str, Any]]]) -> None:
    """The default against the best other rule of each cell, on the training rows."""
    losses, failed = [], []
    for key, rules in by_cell.items():
        others = {rule: r["train"] for rule, r in rules.items() if rule != "default" and "train" in r}
        if "default" not in rules or not others:
            continue
        best = max(others, key=lambda rule: others[rule])
        if "error" in rules["default"]:
            failed.append(f"  {key}: {rules['default']['error'][:90]} ({best} {others[best]:.4f})")
            continue
        losses.append((others[best] - rules["default"]["train"], key, best, rules["default"]))
    if not losses:
        return
    gaps = np.array([loss[0] for loss in losses])
    print(f"cells {len(gaps)}, default fails where another rule fits: {len(failed)}")
    print(f"below the best other rule by > {CLOSE}: {np.sum(gaps > CLOSE)} ({np.mean(gaps > CLOSE):.1%}), "
          f"by > {FAR}: {np.sum(gaps > FAR)}, at most {gaps.max():.4f}")  # fmt: skip
    for gap, key, best, result in sorted(losses, key=lambda loss: -loss[0])[:N_WORST]:
        if gap > CLOSE:
            other = f"{best} {result['train'] + gap:.4f}"
            print(f"  {gap:.4f} {key}: {result['train']:.4f} ({result['winner']}), {other}")
    print(*failed[:N_WORST], sep="\n")


def never_less_with_more(results: list[dict[str, Any]]) -> None:
    """Where more points keep less than fewer did, with the same table, kernel, components and seed."""
    curves: dict[tuple[Any, ...], dict[int, float]] = defaultdict(dict)
    for r in results:
        if r["n_support"] != "auto":
            curves[r["data"], r["kernel"], r["n_components"], r["seed"], r["single"]][r["n_support"]] = r["train"]
    falls = []
    for curve, kept in curves.items():
        sizes = sorted(kept)
        falls += [(kept[few] - kept[many], *curve[:4], few, many) for few, many in pairwise(sizes)]
    if falls:
        print(f"more points keep less by > {CLOSE}: {sum(f[0] > CLOSE for f in falls)} of {len(falls)} steps")
        for fall in sorted(falls, reverse=True)[:N_WORST]:
            if fall[0] > CLOSE:
                print(f"  {fall[0]:.4f} {'|'.join(map(str, fall[1:5]))}: from {fall[5]} to {fall[6]} points")


def honest(results: list[dict[str, Any]]) -> None:
    """captured_ratio_ against the truth on the training rows."""
    if not results:
        return
    over = np.array([r["ratio"] - r["train"] for r in results])
    print(f"captured_ratio_ above the truth by > .003: {np.mean(over > 0.003):.1%}, by > .01: {np.sum(over > 0.01)}, "
          f"at most {over.max():.4f}; below by > .003: {np.mean(over < -0.003):.1%}, at most {-over.min():.4f}; "
          f"outside [0, 1]: {sum(not 0 <= r['ratio'] <= 1 for r in results)}")  # fmt: skip
    inside = [r["interval"][0] - 1e-4 <= r["train"] <= r["interval"][1] + 1e-4 for r in results if r["interval"]]
    if inside:
        widths = [r["interval"][1] - r["interval"][0] for r in results if r["interval"]]
        print(f"the interval holds the truth in {np.mean(inside):.1%}; width median {np.median(widths):.4f}, "
              f"90% {np.quantile(widths, 0.9):.4f}")  # fmt: skip
    for value, r in sorted(zip(over, results, strict=True), key=lambda pair: -abs(pair[0]))[:N_WORST]:
        if abs(value) > 0.003:
            print(
                f"  {value:+.4f} {r['cell']}: says {r['ratio']:.4f} {r['interval']}, is {r['train']:.4f} ({r['kind']})"
            )
    lies = [r for r in results if abs(r["says"] - r["sum"]) > 1e-3]
    print(f"explained variance wrong by > .001 of exact's: {len(lies)}")
    for r in sorted(lies, key=lambda r: -abs(r["says"] - r["sum"]))[:8]:
        print(f"  {r['cell']}: says {r['says']:.4f}, is {r['sum']:.4f}")


def held_out(results: list[dict[str, Any]]) -> None:
    """Means at the median width, M = 10; correlations; what "auto" keeps."""
    for m in (20, 50):
        values = [r["test"] for r in results if (r["kernel"], r["n_components"], r["n_support"]) == ("rbf 1", 10, m)]
        if values:
            print(f"held out, M = 10, median width, m = {m}: mean of {len(values)} {np.mean(values):.4f}, "
                  f"least {min(values):.4f}")  # fmt: skip
    enough = [r for r in results if isinstance(r["n_support"], int) and r["n_support"] >= 2 * r["n_components"]]
    if enough:
        low = [r for r in enough if r["correlation"] < 0.99]
        print(f"correlation of a component with exact scores < .99: {len(low)} of {len(enough)}")
    automatic([r for r in results if r["n_support"] == "auto"])
    print(f"seconds: {sum(r['seconds'] for r in results):.1f} for {len(results)} fits of the default")


def automatic(results: list[dict[str, Any]]) -> None:
    """What "auto" keeps, how far its number of points depends on the seed, and what finding it costs."""
    if not results:
        return
    kept = np.array([r["test"] for r in results])
    trained = np.mean([r["train"] >= 0.985 for r in results])
    print(f"auto: held out >= .985 in {np.mean(kept >= 0.985):.1%}, < .98 in {np.sum(kept < 0.98)} of {len(kept)}, "
          f"least {kept.min():.4f}; training >= .985 in {trained:.1%}")  # fmt: skip
    for r in sorted(results, key=lambda r: r["test"])[:N_WORST]:
        if r["test"] < 0.985 or r["train"] < 0.985:
            print(f"  {r['cell']}: m = {r['n_support_']}, held out {r['test']:.4f}, training {r['train']:.4f}, "
                  f"says {r['ratio']:.4f}")  # fmt: skip
    print("  points:", sorted((r["n_support_"] for r in results), reverse=True)[:30])
    seeds: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for r in results:
        seeds[r["data"], r["kernel"], r["n_components"]].append(r["n_support_"])
    spreads = {key: max(found) / min(found) for key, found in seeds.items() if len(found) > 1}
    if spreads:
        wide = [key for key in spreads if spreads[key] > MOST_SPREAD and max(seeds[key]) > FEW_POINTS]
        print(f"points over seeds differ by more than a factor of {MOST_SPREAD}, and are more than {FEW_POINTS}, in "
              f"{len(wide)} of {len(spreads)} cells ({len(wide) / len(spreads):.1%})")  # fmt: skip
        for key in sorted(wide, key=lambda key: -spreads[key])[:N_WORST]:
            print(f"  {spreads[key]:.2f} {key}: {sorted(seeds[key])}")
    costs = {r["cell"]: r["seconds"] / r["seconds_given"] for r in results if "seconds_given" in r}
    if costs:
        dear = sorted((cell for cell in costs if costs[cell] > MOST_COST), key=lambda cell: -costs[cell])
        print(f"cost beside a fit with the number given: median {np.median(list(costs.values())):.2f}, "
              f"more than {MOST_COST} in {len(dear)} of {len(costs)}")  # fmt: skip
        for r in sorted(results, key=lambda r: -costs.get(r["cell"], 0.0))[:N_WORST]:
            if costs.get(r["cell"], 0.0) > MOST_COST:
                print(f"  {costs[r['cell']]:.2f} {r['cell']}: m = {r['n_support_']}, {r['seconds']:.2f} s")
