"""
How many points
===============

How many support points does a model need, and how sure is the number that says so? By default you need not decide:
``n_support="auto"`` finds the fewest that keep 99 % of what exact kernel PCA keeps. This page says what that means.
"""

# %%
# What ``captured_ratio_`` is
# ---------------------------
#
# Exact kernel PCA with :math:`M` components captures as much variance as :math:`M` components can. A model on few
# points captures a little less. The ratio of the two is ``captured_ratio_``: 1 is exact, 0.99 has lost one per cent of
# what could be had. It is *not* the share of all variance that the components explain; that is
# ``explained_variance_ratio_``, which is small for ten components of any kernel, exact or not.

import matplotlib.pyplot as plt
import pictures
import shown

from kernelsieve import KernelPCA, SparseKernelPCA

data = shown.usps()
print(data.source)
model = SparseKernelPCA(10, random_state=0).fit(data.train)
print("points found:", model.n_support_)
print(f"captured_ratio_: {model.captured_ratio_:.4f}")
print(f"explained_variance_ratio_, sum: {model.explained_variance_ratio_.sum():.3f}")

# %%
# Points against what they keep
# -----------------------------
#
# Points that may move keep far more than rows that were picked, and picked rows more than random ones. The curve is
# steep at first and flat soon: the last per cent costs more points than the first ninety.

rows = data.train[: shown.amount(1000, 200)]
gamma = model.gamma_
exact = KernelPCA(10, kernel="rbf", gamma=gamma).fit(rows).score(data.test)
sizes = [15, 20, 30, 50, 100][: shown.amount(5, 3)]
curves = {"optimized": [], "kmeans": [], "targeted": [], "uniform": []}
for rule, kept in curves.items():
    for size in sizes:
        fitted = SparseKernelPCA(10, n_support=size, selection=rule, gamma=gamma, random_state=0).fit(rows)
        kept.append(100 * fitted.score(data.test) / exact)

figure, (ax,) = pictures.panels(1, 6, 3.8)
pictures.curve(ax, sizes, curves, "support points", "held-out variance kept of exact, %")
ax.set(xscale="log", title="How points are chosen decides how many are needed")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
plt.show()

# %%
# ``selection="optimized"``, the default, moves points to wherever they help most; they need not be rows, and on images
# they look like blends of digits. Take ``"targeted"`` when points must be rows: to show them to people, or for kernels
# that are a matrix or a function. The other rules are there for comparison with the literature.
#
# How sure it is
# --------------
#
# ``captured_ratio_`` compares with exact kernel PCA, which cannot be computed on many rows. So ``captured_ratio_kind_``
# tells on what it was measured:
#
# ========================== ================================================================================
# kind                       means
# ========================== ================================================================================
# ``"exact"``                all rows are support: it is exact kernel PCA, and the ratio 1
# ``"all rows"``             both were computed on all rows: no doubt about it
# ``"sample"``               both were computed on the same sample of rows
# ``"sample, extrapolated"`` as before, carried on to all rows from how the sample's halves differ
# ========================== ================================================================================
#
# ``captured_ratio_interval_`` is where the true ratio lies with 90 % confidence. Where it is wide the ratio itself is
# on its low side, so that the promise of 99 % is rather kept than broken. We can hold it against the truth on rows that
# were not seen:

print("kind:", model.captured_ratio_kind_, "on", model.captured_ratio_n_samples_, "rows")
low, high = model.captured_ratio_interval_
print(f"interval: {low:.4f} .. {high:.4f}")
for size in (15, 30, 60):
    fitted = SparseKernelPCA(10, n_support=size, gamma=gamma, random_state=0).fit(rows)
    truth = fitted.score(data.test) / exact
    print(f"{size} points: captured_ratio_ {fitted.captured_ratio_:.4f}, on held-out rows {truth:.4f}")

# %%
# Asking for another share
# ------------------------
#
# ``variance`` is the share that ``"auto"`` keeps of rows like these. Of the rows themselves it keeps a little more: it
# is easier to fit the rows that points were chosen for than others, and the fewer carry the variance the more so.
# The search costs two to three times a fit with the number given, and ``selection_report_`` says which sizes it tried.

for variance in (0.95, 0.99, 0.995):
    fitted = SparseKernelPCA(10, variance=variance, random_state=0).fit(rows)
    print(f"variance={variance}: {fitted.n_support_} points, kept {fitted.captured_ratio_:.4f}")

from kernelsieve import plots

plots.support(model, image_shape=data.shape)
plt.show()

# %%
# .. admonition:: In short
#
#    Leave ``n_support="auto"``. Read ``captured_ratio_`` with its interval. If it finds more than a few hundred points,
#    the kernel is too narrow or there are too many components: see :doc:`kernel and width <kernel_and_width>` and
#    :doc:`how many components <how_many_components>`.
