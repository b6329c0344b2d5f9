"""Mutants: would any test notice if this line were wrong?

One expression of the source is changed at a time (`<` into `<=`, `+` into `-`, `.max()` into `.min()`, `if x:` into
`if False:`, ...) and the tests that run its line are run.  A mutant that they all pass is a survivor: either no test
asks for what the line does, or the line does nothing that matters.  Run it with `make mutants`, or

    PYTHONPATH=tests python -m mutation --seed 3 --number 40 linear rows        # 40 random mutants of two packages
    PYTHONPATH=tests python -m mutation --at linear/robust_weights.py:195               # every mutant of one line
    PYTHONPATH=tests python -m mutation linear --tests tests/linear             # judged by some of the tests only

The first run records which test runs which line, in build/mutation; files of tests that have not changed since are not
recorded again, unless the source has, or what is installed.  It needs a system that can fork and pytest, and nothing
else beyond the package.
"""
