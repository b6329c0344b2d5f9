"""
A drifting stream
=================

Digits that slowly turn from upright to lying. A model that forgets keeps up.
Beside it are one that remembers everything and the published online rules.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelsieve import KernelPCA, OnlineKernelPCA, SparseKernelPCA, plots

train, test = train_test_split(
    load_digits().data / 16, test_size=1 / 3, random_state=0
)


def turned(rows, angle):
    """Each image, turned by an angle in degrees."""
    images = rows.reshape(-1, 8, 8)
    images = rotate(images, angle, axes=(1, 2), reshape=False, order=1)
    return images.reshape(len(rows), 64)


angles = np.linspace(0, 90, 24)
rng = np.random.default_rng(0)
stream = [
    turned(train[rng.integers(len(train), size=200)], angle) for angle in angles
]
fig, ax = plt.subplots(figsize=(7.2, 1.2), layout="constrained")
film = [turned(test[3:4], a).reshape(8, 8) for a in np.linspace(0, 90, 10)]
ax.imshow(np.hstack(film), cmap="gray_r")
ax.axis("off")
plt.show()

# %%
# Each model sees each block once. It is then asked how much variance it
# captures on held-out rows turned in the same way, relative to exact kernel PCA
# fitted at *that* angle.

gamma = SparseKernelPCA(5, n_support=20, random_state=0).fit(stream[0]).gamma_
settings = {"gamma": gamma, "random_state": 0}
forgetful = {"half_life": 500, **settings}
models = {
    "half_life=500": SparseKernelPCA(
        5, n_support=30, record_drift=True, **forgetful
    ),
    "remembers everything": SparseKernelPCA(5, n_support=30, **settings),
    "subset rule": OnlineKernelPCA(5, rule="subset", budget=30, **forgetful),
    "incremental rule": OnlineKernelPCA(
        5, rule="incremental", budget=30, **forgetful
    ),
}
kept = {name: [] for name in models}
for angle, block in zip(angles, stream, strict=True):
    held_out = turned(test[:150], angle)
    exact = KernelPCA(5, kernel="rbf", gamma=gamma)
    best = exact.fit(turned(train[:300], angle)).score(held_out)
    for name, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a race of starts ends early
            model.partial_fit(block)
        kept[name].append(model.score(held_out) / best)

for name, values in kept.items():
    plt.plot(angles, values, marker="o", label=name)
    print(f"{name:<22} mean {np.mean(values):.1%}")
plt.xlabel("angle of the current rows, degrees")
plt.title("variance captured, relative to exact kernel PCA")
plt.legend()
plt.show()

# %%
# ``drift_`` is the angle by which the components have turned since support
# points were last chosen:

plots.drift(models["half_life=500"])
plt.show()
