"""
A drifting stream
=================

Digits that turn slowly, from upright to lying. A model that forgets keeps up; the published online rules, and one that
remembers all, are beside it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from scipy.ndimage import rotate

from kernelsieve import KernelPCA, OnlineKernelPCA, SparseKernelPCA, plots

data = shown.digits()
print(data.source, "- turned from 0 to 90 degrees as they come")
rng = np.random.default_rng(0)


def turned(rows, degrees):
    """Each image turned by so many degrees."""
    images = np.asarray(rows).reshape(-1, *data.shape)
    return np.stack([rotate(image, degrees, reshape=False, order=1).ravel() for image in images])


n_blocks = shown.amount(16, 4)
angles = np.linspace(0, 90, n_blocks)
pool = data.train[rng.permutation(len(data.train))]
stream = [turned(pool[rng.integers(len(pool), size=250)], angle) for angle in angles]
gamma = SparseKernelPCA(5, n_support=20, random_state=0).fit(stream[0]).gamma_

figure, (ax,) = pictures.panels(1, 7, 1.4)
pictures.images(
    ax,
    np.stack([turned(data.test[3:4], angle)[0] for angle in np.linspace(0, 90, 10)]),
    data.shape,
    "one digit, as the stream goes on",
)
plt.show()

# %%
# Each model sees a block once. Then it is asked how much of the variance it explains of rows turned as that block was,
# relative to exact kernel PCA of *that* angle.

settings = {"gamma": gamma, "random_state": 0}
models = {
    "ours, half_life=500": SparseKernelPCA(5, n_support=30, half_life=500, record_drift=True, **settings),
    "ours, remembers all": SparseKernelPCA(5, n_support=30, **settings),
    "subset (Washizawa, Tanaka)": OnlineKernelPCA(5, rule="subset", budget=30, half_life=500, **settings),
    "incremental (Chin & Suter)": OnlineKernelPCA(5, rule="incremental", budget=30, half_life=500, **settings),
}
curves = {name: [] for name in models}
for angle, block in zip(angles, stream, strict=True):
    held_out = turned(data.test[:150], angle)
    exact = KernelPCA(5, kernel="rbf", gamma=gamma).fit(turned(data.train[:400], angle)).score(held_out)
    for name, model in models.items():
        model.partial_fit(block)
        curves[name].append(100 * model.score(held_out) / exact)

figure, (ax,) = pictures.panels(1, 7, 4)
pictures.curve(ax, angles, curves, "angle of the rows now, degrees", "variance kept of exact, now, %")
ax.set_title("Thirty points each")
plt.show()
for name, values in curves.items():
    print(f"{name:<28} mean {np.mean(values):.1f} %, last {values[-1]:.1f} %")

# %%
# The model's own account of it: the angle by which components have turned since points were last chosen.

plots.drift(models["ours, half_life=500"])
plt.show()
