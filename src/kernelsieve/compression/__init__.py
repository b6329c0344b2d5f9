"""Reduced sets: a fitted expansion on fewer points that gives nearly the same scores.

An expansion z(x) = k(x, S) A - b is a linear function of the features phi(s), so leaving points out, or moving them,
is a least-squares problem in the remaining coefficients.  Either of two errors can be minimised:

    on rows            sum_n |z(x_n) - z'(x_n)|^2         regress the scores on k(., S'), intercept = offset
    in feature space   sum_k |v_k - v'_k|^2               project: B = K_S'S'^+ K_S'S A

Both have the form  min_B |Y - F_S' B|^2  with one column of F for each candidate point, and every rule that keeps some
of the points needs only (F, Y):

    removal         backward elimination: drop argmin_i sum_k b_ik^2 / ((F'F)^-1)_ii, the exact increase of the error
    l1              the group lasso's path, then the refit
    eigen-removal   Schoelkopf et al. (1999): the eigenvector of the gram's smallest eigenvalue says which point to drop

"optimized" moves the points: L-BFGS on the same error, with the best B for every position.

Errors are relative: |z_k - z'_k| / |z_k - mean z_k| on rows, |v_k - v'_k| / |v_k| in feature space, and for all
components together the root of the ratio of the sums of squares.
"""
