"""Torture: seeded campaigns that try to make the library lie, lose something, or fail without a word.

    python -m torture                       every campaign, its full number of cases, a new seed
    python -m torture fits --cases 500      one campaign, so many cases
    python -m torture --seconds 300         a slice: every campaign gets its share of five minutes
    python -m torture fits --seed 7 --only 123      one case again, with its traceback

Each case is made from (campaign, seed, number) alone.  It ends in one of three ways: the answer is right as far as
`invariants` can tell, the error is clear and nothing was changed, or it is a fault, printed with its number.
"""
