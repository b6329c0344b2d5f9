"""The numbers that limit what a report shows and computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PageLimits:
    """Limits and sizes, grouped by the sections of a page."""

    # The page, whose size should stay below 5 MB with the chart library.
    row_bytes: int = 3_200_000  # room for the values and scores of the shown rows
    picture_bytes: int = 700_000  # room for pictures of rows
    notebook_height: int = 900  # height in pixels of the frame that shows a page in a notebook
    score_steps: int = 2**16 - 2  # steps from the smallest to the largest score, stored in two bytes

    # The table.
    max_columns: int = 60  # columns shown
    max_text_columns: int = 6  # columns of text among them; each takes the room of ten other columns
    max_beside: int = 20  # further columns that the model does not use
    glance_rows: int = 200  # rows by which a column is judged to hold text, and its size is estimated
    max_levels: int = 1000  # a column with more different texts is not a class
    max_text: int = 40  # characters of a text; longer ones are shortened

    # Decoding: from encoded columns back to those of the table.
    max_tried_columns: int = 2000  # if a table has more columns, its encoded columns are shown instead
    tried_levels: int = 256  # values of a class that are tried, to find its encoded columns
    tried_numbers: int = 5  # values of a number that are tried, for the same purpose
    known_rows: int = 2000  # rows whose raw and encoded values are used for decoding

    # The summary.
    max_movers: int = 3  # columns named for a component
    names_left_out: int = 20  # columns named as left out

    # How many components and points, and how wide a kernel: computed by small fits.
    small_fit_rows: int = 1000  # rows of a small fit
    scree_rows: int = 200  # rows of the scree plot
    n_shuffles: int = 19  # number of times that all columns are shuffled
    shuffled_band: tuple[float, float] = (0.05, 0.95)  # quantiles of the shuffles that bound the band
    min_scree: int = 10  # components in the scree plot: at least this many if they exist, at most `max_scree`
    max_scree: int = 20
    sizes: tuple[float, ...] = (0.5, 0.75, 1.5, 2.0, 4.0)  # numbers of points to try, as multiples of the model's own
    more_sizes: tuple[float, ...] = (2.0,)  # the same if `fit` has already tried several numbers of points
    max_tried_points: int = 300
    # Widths of the kernel as multiples of the model's own: from a quarter to four times, half an octave apart.
    widths: tuple[float, ...] = (0.25, 0.35, 0.5, 0.71, 1.0, 1.41, 2.0, 2.83, 4.0)
    width_points: int = 80  # points that span the components: up to half of them the model's own, the rest rows
    agreement_rows: int = 500  # rows whose scores are compared
    max_side_components: int = 10  # number of components whose scores at other widths the page keeps

    # What the components mean.
    gradient_rows: int = 300  # enough to know a root mean square gradient to a few per cent
    walk_steps: int = 7  # positions along a component; an odd number, so that the middle one is the mean
    max_walks: int = 10  # number of components with a walk
    max_listed: int = 12  # columns in the table of a walk
    n_returns: int = 10  # rows shown as pictures together with their reconstructions
    max_shown_points: int = 100

    # Outliers.
    n_outliers: int = 12  # largest number of cards, and number of rows shown if none is above the fence
    max_explained: int = 500  # odd rows whose pre-images are computed
    fence: float = 1.5  # distance of the fence in interquartile ranges (J. W. Tukey, Exploratory Data Analysis, 1977)
    max_reasons: int = 4  # columns named for a row
    min_reason: float = 0.03  # a column with a smaller share is not named, unless it is the first
    common_share: float = 0.5  # a value that more than this share of the rows has is not a reason
    common_rows: int = 1000  # rows by which that share is estimated
    same_value: int = 3  # at least this many odd rows with one value get their own card, if they are most of a group
    value_gap: float = 0.6  # a group is split at a gap wider than this share of the range of its values
    max_ranges: int = 8  # ranges of row numbers on a card
    blamed: float = 0.05  # a heavy-tailed column that makes this share of the explained rows odd is worth advice

    # The code.
    max_repr: int = 400  # characters; a longer value of a parameter is not printed
    line_length: int = 80  # characters that fit the page

    # A monitor's page.
    max_pixel_columns: int = 1000  # bins of rows in a chart, which draws the largest value of each bin
    max_stretches: int = 40  # stretches of alarms that are shown; of more, the worst
    max_causes: int = 12  # columns in the list of causes
    n_ticks: int = 5
    steep: float = 20.0  # a chart whose values exceed this multiple of the limit has a logarithmic axis


PAGE = PageLimits()
