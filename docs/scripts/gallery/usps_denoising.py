"""
Denoising USPS digits: scikit-learn's example, beside ours
==========================================================

scikit-learn's example "Image denoising using kernel PCA" learns 1000 digits and takes noise off 100 others. Ours does
it with 150 points, and has no pre-image to learn.
"""

# %%
# The settings for PCA and for ``KernelPCA`` are those of scikit-learn's example (32 components; 400 components,
# ``gamma=1e-3``, ``alpha=5e-3``). Ours has the median width and as many components as points allow; the noise, of
# variance 0.25, is the same.

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.decomposition import PCA, KernelPCA

from kernelsieve import SparseKernelPCA

data = shown.usps(n_train=1000, n_test=100)
print(data.source)
rng = np.random.default_rng(0)
train = data.train + 0.5 * rng.standard_normal(data.train.shape)
test = data.test + 0.5 * rng.standard_normal(data.test.shape)
n_components = shown.amount(400, 100)
exact = KernelPCA(n_components, kernel="rbf", gamma=1e-3, fit_inverse_transform=True, alpha=5e-3, random_state=0)
models = {
    "PCA": PCA(32, random_state=0),
    "scikit-learn KernelPCA": exact,
    "ours: 150 points": SparseKernelPCA(32, n_support=shown.amount(150, 60), random_state=0),
}

results, lines = {"clean": data.test, "noisy": test}, []
for name, model in models.items():
    _, seconds, megabytes = shown.measured(lambda model=model: model.fit(train))
    restored, back = shown.timed(lambda model=model: model.inverse_transform(model.transform(test)))
    error = np.mean((restored - data.test) ** 2)
    results[f"{name}: mean squared error {error:.3f}"] = restored
    lines.append((name, error, seconds, back, megabytes))

figure, axes = pictures.panels(1, 7.5, 1.1, rows=len(results))
for ax, (title, rows) in zip(axes, results.items(), strict=True):
    pictures.images(ax, np.clip(rows[:12], 0, 1), data.shape, title)
plt.show()

# %%
# Accuracy, time and memory
# -------------------------

for name, error, seconds, back, megabytes in lines:
    print(f"{name:<24} error {error:.4f}  fit {seconds:.2f} s  restore {back:.3f} s  memory {megabytes:.0f} MB")
print(f"{'leaving the noise in':<24} error {np.mean((test - data.test) ** 2):.4f}")

figure, axes = pictures.panels(3, 3.8, 1.9)
for ax, column, label, form in zip(
    axes, (1, 2, 4), ("error", "fit, s", "memory, MB"), ("{:.3f}", "{:.2f}", "{:.0f}"), strict=True
):
    pictures.bars(ax, [line[0] for line in lines], [line[column] for line in lines], label, form)
    if column > 1:
        ax.set_yticks([])
plt.show()

# %%
# All three learn from noisy digits, as scikit-learn's example does. With clean digits to learn from, the difference is
# larger:
# :doc:`/guide/preimages_and_denoising`.
