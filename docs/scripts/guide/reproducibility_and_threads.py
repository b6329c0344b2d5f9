"""
Reproducibility and threads
===========================

Why do I get other numbers on another run? Because points are chosen by a search that starts at random. ``random_state``
fixes it; this page shows what varies without it, by how much, and what threads do.
"""

# %%
# What varies, and by how much
# ----------------------------
#
# With a seed, a fit is the same to the last bit. Without one, points differ from run to run, and what they keep hardly
# does:

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown

from kernelsieve import SparseKernelPCA

data = shown.digits()
print(data.source)
first, second = (SparseKernelPCA(10, n_support=30, random_state=0).fit(data.train) for _ in range(2))
print("the same seed, the same bits:", bool((first.dual_coef_ == second.dual_coef_).all()))

seeds = range(shown.amount(12, 3))
models = [SparseKernelPCA(10, n_support=30, random_state=seed).fit(data.train) for seed in seeds]
kept = [100 * model.captured_ratio_ for model in models]
print(f"other seeds: captured_ratio_ from {min(kept):.2f} to {max(kept):.2f} %")

# %%
# Components themselves agree, too: the leading ones nearly, those whose variances lie close together only as a plane.
# The cosine of each component's scores with those of the first seed:

reference = models[0].transform(data.test)
agreement = np.array(
    [
        [abs(np.corrcoef(reference[:, k], model.transform(data.test)[:, k])[0, 1]) for k in range(10)]
        for model in models[1:]
    ]
)
figure, (ax,) = pictures.panels(1, 6, 3.2)
ax.plot(range(10), agreement.T, color=pictures.COLORS[8], alpha=0.4)
ax.plot(range(10), np.median(agreement, axis=0), color=pictures.COLORS[0], marker="o", label="median of the seeds")
ax.set(
    xlabel="component",
    ylabel="|correlation| with seed 0",
    ylim=(min(0.9, agreement.min()), 1.005),
    title="The same components from other points",
)
ax.legend()
plt.show()

# %%
# Signs
# -----
#
# An eigenvector has no sign. kernelsieve fixes one by the same rule on every run; scikit-learn fixes it by another.
# Compare scores up to sign.
#
# What never varies
# -----------------
#
# * ``n_jobs`` and the number of cores: the result does not depend on them, and sums are taken in a fixed order.
# * How rows are cut into blocks, files or chunks, to rounding.
# * float32 rows give float32 scores; sums inside are float64.
#
# ``n_jobs``

same = [SparseKernelPCA(10, n_support=30, random_state=0, n_jobs=jobs).fit(data.train).dual_coef_ for jobs in (1, 2)]
print("one thread and two: largest difference", np.abs(same[0] - same[1]).max())

# %%
# Threads inside threads
# ----------------------
#
# A fit uses the cores itself. Inside a process pool, a web server's threads or ``GridSearchCV(n_jobs=-1)``, many fits
# at once, each with all cores, get in each other's way: BLAS threads that wait for each other cost up to thirty times.
# kernelsieve keeps BLAS at one thread where it runs threads of its own; for the rest, give ``n_jobs=1`` to the
# estimators inside, or set ``OMP_NUM_THREADS=1`` for the workers.
#
# .. admonition:: In short
#
#    ``random_state=0`` for the same bits; ``n_jobs=1`` inside other parallel work.
