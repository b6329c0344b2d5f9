"""
How many support points
=======================

How many support points does a model need, and how reliable is the number that
says so? By default you need not decide: ``n_support="auto"`` finds the fewest
that keep 99 % of what exact kernel PCA captures.
"""

# %%
# What ``captured_ratio_`` is
# ---------------------------
#
# Exact kernel PCA captures as much variance as :math:`M` components can. A
# model on a few support points captures slightly less. The ratio of the two is
# ``captured_ratio_``: 1 is exact, 0.99 has lost one per cent. It is *not* the
# share of the total variance that the components explain. That is
# ``explained_variance_ratio_``, which is modest for ten components of any
# kernel, exact or not.

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelsieve import KernelPCA, KernelWarning, SparseKernelPCA, plots

# Few points and poor rules, below, are warned of: some components are then not
# those of exact kernel PCA (component_agreement_).
warnings.simplefilter("ignore", KernelWarning)

train, test = train_test_split(
    load_digits().data / 16, test_size=1 / 3, random_state=0
)
model = SparseKernelPCA(10, random_state=0).fit(train)
print("support points found:", model.n_support_)
print(f"captured_ratio_: {model.captured_ratio_:.4f}")
explained = model.explained_variance_ratio_.sum()
print(f"explained_variance_ratio_, summed: {explained:.3f}")

# %%
# The points themselves
# ---------------------
#
# ``selection="optimized"``, the default, moves each point to where it captures
# most variance. The points need not be rows. On images they look like blends of
# digits:

plots.support(model, image_shape=(8, 8))
plt.show()

# %%
# Take ``selection="targeted"`` when support points must be rows: to show them
# to people, or for kernels that are a matrix or a function. How the points are
# chosen decides how many you need:

exact = KernelPCA(10, kernel="rbf", gamma=model.gamma_).fit(train)
best = exact.score(test)
sizes = [15, 20, 30, 50, 100]
for rule in ("optimized", "kmeans", "targeted", "uniform"):
    kept = []
    for size in sizes:
        fitted = SparseKernelPCA(
            10,
            n_support=size,
            selection=rule,
            gamma=model.gamma_,
            random_state=0,
        ).fit(train)
        kept.append(fitted.score(test) / best)
    plt.semilogx(sizes, kept, marker="o", label=rule)
plt.xticks(sizes, sizes)
plt.minorticks_off()
plt.xlabel("support points")
plt.title("held-out variance, relative to exact kernel PCA")
plt.legend()
plt.show()

# %%
# How reliable it is
# ------------------
#
# ``captured_ratio_`` compares with exact kernel PCA, which cannot be computed
# on many rows. ``captured_ratio_kind_`` says what it was measured on:
#
# .. list-table::
#    :header-rows: 1
#
#    * - kind
#      - meaning
#    * - ``"exact"``
#      - all rows are support points, so the ratio is 1
#    * - ``"all rows"``
#      - both sides were computed on all rows: no uncertainty
#    * - ``"sample"``
#      - both sides were computed on the same sample of rows
#    * - ``"sample, extrapolated"``
#      - extrapolated from the sample to all rows
#
# ``captured_ratio_interval_`` is a 90 % confidence interval. Where the interval
# is wide, the ratio itself is estimated cautiously, so the 99 % target errs on
# the safe side. Here is the ratio beside the truth on rows that were held out:

low, high = model.captured_ratio_interval_
print(f"{model.captured_ratio_kind_}: {low:.4f} to {high:.4f}")
for size in (15, 30, 60):
    fitted = SparseKernelPCA(
        10, n_support=size, gamma=model.gamma_, random_state=0
    ).fit(train)
    truth = fitted.score(test) / best
    print(
        f"{size} points: captured_ratio_ {fitted.captured_ratio_:.4f}, "
        f"on held-out rows {truth:.4f}"
    )

# %%
# Asking for another share
# ------------------------
#
# ``variance`` is the share that ``"auto"`` aims for on rows like these. On the
# training rows it keeps slightly more, because the points were chosen for them;
# the effect grows when a few rows carry most of the variance. The search costs
# about two fits with the number given, and ``selection_report_`` lists the
# sizes it tried.

for variance in (0.95, 0.99, 0.995):
    fitted = SparseKernelPCA(10, variance=variance, random_state=0).fit(train)
    print(
        f"variance={variance}: {fitted.n_support_} support points keep "
        f"{fitted.captured_ratio_:.4f}"
    )

# %%
# .. admonition:: In short
#
#    Leave ``n_support="auto"``, and read ``captured_ratio_`` with its interval.
#    If it finds more than a few hundred points, the kernel is too narrow or
#    there are too many components: see :doc:`kernel and width
#    <kernel_and_width>` and :doc:`how many components <how_many_components>`.
