"""
Text
====

What scikit-learn says about its own estimators, paragraph by paragraph: can the module be told from the words? And is
kernel PCA of any use on tf-idf? Mostly not, and this example shows it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pictures
import shown
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score

from kernelsieve import SparseKernelPCA

documents, modules = shown.docstrings()
if shown.SMALL:
    documents, modules = documents[::6], modules[::6]
tfidf = TfidfVectorizer(min_df=3, stop_words="english", sublinear_tf=True).fit_transform(documents)
n_documents, n_words = tfidf.shape
used = 100 * tfidf.nnz / (n_documents * n_words)
print(f"{n_documents} paragraphs of scikit-learn's docstrings, {n_words} words, {used:.1f} % of them used in one")

# %%
# Sparse rows go in as they are: nothing is made dense.

n_components = shown.amount(40, 10)
n_support = shown.amount(120, 40)
models = {
    "TruncatedSVD": TruncatedSVD(n_components, random_state=0),
    "ours: cosine kernel": SparseKernelPCA(n_components, n_support=n_support, kernel="cosine", random_state=0),
    "ours: Gaussian kernel": SparseKernelPCA(n_components, n_support=n_support, random_state=0),
}
accuracy, seconds, scores = {}, {}, {}
for name, model in models.items():
    (scores[name], messages), seconds[name] = shown.timed(
        lambda model=model: shown.warned(lambda: model.fit_transform(tfidf))
    )
    accuracy[name] = 100 * cross_val_score(RidgeClassifier(0.1), scores[name], modules, cv=3).mean()
    print(*messages, sep="\n")

figure, axes = pictures.panels(2, 4.8, 2)
pictures.bars(axes[0], list(models), list(accuracy.values()), "accuracy of six modules, %", "{:.1f}")
pictures.bars(axes[1], list(models), list(seconds.values()), "fit, s", "{:.2f}")
axes[1].set_yticks([])
plt.show()

# %%
# Why
# ---
#
# Two paragraphs share few words, so all distances are about the same, and a Gaussian kernel of them is nearly a
# straight line: it adds nothing to the cosine, which is linear in tf-idf. ``TruncatedSVD`` gets there with nothing to
# choose. Take kernel PCA for text when there is a kernel that knows more than words (of strings, of embeddings), and
# not before.

distances = np.sqrt(np.maximum(0, 2 - 2 * (tfidf[:300] @ tfidf[:300].T).toarray()))[
    np.triu_indices(min(300, tfidf.shape[0]), 1)
]
figure, axes = pictures.panels(2, 4.4, 3.4)
axes[0].hist(distances, bins=40, color=pictures.COLORS[0])
axes[0].set(title="distances between paragraphs", xlabel="distance (at most 1.41)", yticks=[])
pictures.classes(axes[1], scores["ours: cosine kernel"][:, :2], modules, "cosine kernel", legend=True)
plt.show()
