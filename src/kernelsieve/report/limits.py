"""Every number that limits what a report shows and measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PageLimits:
    """Every number of the report, section by section."""

    # The page: 5 MB with the chart library.
    row_bytes: int = 3_200_000  # for rows and columns
    picture_bytes: int = 700_000  # for pictures of rows
    notebook_height: int = 900  # pixels of the frame that shows a page in a notebook
    score_steps: int = 2**16 - 2  # between the smallest and the largest score

    # The table.
    max_columns: int = 60
    max_text_columns: int = 6  # of those, columns of texts: each takes the room of ten others
    max_beside: int = 20  # further columns that the model does not use
    glance_rows: int = 200  # enough to see what a column is like
    max_levels: int = 1000  # a column with more different texts is not a class
    max_text: int = 40  # characters of one text

    # The way back from encoded columns to those of the table.
    max_tried_columns: int = 2000  # a table with more columns is shown by its encoded ones
    tried_levels: int = 256  # values of a class that are tried
    tried_numbers: int = 5  # values of a number that are tried
    known_rows: int = 2000  # whose values and codes a number is interpolated between

    # The summary.
    max_movers: int = 3  # columns named for a direction
    names_left_out: int = 20  # names of columns that are left out

    # How many components, points, and how wide a kernel: small fits of the report's own.
    small_fit_rows: int = 1000
    scree_rows: int = 200
    n_shuffles: int = 19  # so that the ends of the band are the 5 % and 95 % points
    shuffled_band: tuple[float, float] = (0.05, 0.95)
    min_scree: int = 10  # components drawn, where there are as many
    max_scree: int = 20
    sizes: tuple[float, ...] = (0.5, 0.75, 1.5, 2.0, 4.0)  # numbers of points to try, as multiples of the model's own
    more_sizes: tuple[float, ...] = (2.0,)  # those to try if `fit` has tried some itself
    max_tried_points: int = 300
    # Widths as multiples of the model's own: half an octave apart, to a quarter and to four times.
    widths: tuple[float, ...] = (0.25, 0.35, 0.5, 0.71, 1.0, 1.41, 2.0, 2.83, 4.0)
    width_points: int = 80  # that span the components: the model's own, for at most half of them, and rows
    agreement_rows: int = 500
    max_side_components: int = 10  # whose scores at other widths are kept

    # What the components mean.
    gradient_rows: int = 300  # the root mean square is then known to a few percent
    walk_steps: int = 7  # along a component, an odd number: the middle is the mean
    max_walks: int = 10  # components that are walked along
    max_listed: int = 12  # columns in the explanation of a component
    n_returns: int = 10  # pictures shown with what their scores give back
    max_shown_points: int = 100

    # Outliers.
    n_outliers: int = 12  # cards, and rows if none is above the fence
    max_explained: int = 500  # odd rows whose pre-images are found
    fence: float = 1.5  # interquartile ranges (J. W. Tukey, Exploratory Data Analysis, 1977)
    max_reasons: int = 4  # columns named for a row
    min_reason: float = 0.03  # the least share that a second one has
    common_share: float = 0.5  # a value that more rows than this have is no reason
    common_rows: int = 1000  # on which that share is measured
    same_value: int = 3  # odd rows that share a value, and are most of those of their column, have a card of their own
    value_gap: float = 0.6  # of the range of a group's values: a wider gap between two of them makes two groups
    max_ranges: int = 8  # of row numbers, on a card
    blamed: float = 0.05  # share of the explained odd rows from which a column with a heavy tail is worth advice

    # The code.
    max_repr: int = 400  # characters of one parameter's value
    line_length: int = 80  # so that no line is cut

    # A monitor's page.
    max_pixel_columns: int = 1000  # stretches of rows in a chart; of each, the largest value is drawn
    max_stretches: int = 40  # stretches of alarms, the worst
    max_causes: int = 12  # columns in the list of causes
    n_ticks: int = 5
    steep: float = 20.0  # times the limit: a chart that reaches further has a logarithmic axis


PAGE = PageLimits()
