"""What makes a class an estimator: parameters declared once, and a fit that leaves a whole model or none.

    @estimator
    class Example(KernelTransformer):
        n_components: int = parameter(2, at_least(1), positional=True)
        alpha: float = parameter(0.1, more_than(0))

generates the constructor that scikit-learn inspects, keyword-only except for positional parameters, and the
constraints that `fit` checks.  Inherited parameters need not be repeated; a class may give one another default.

Numbers may be numpy scalars: `gamma=np.uint8(5)` is 5 to every line that reads `self.gamma`, where an eight-bit number
would overflow in the first product; `get_params` returns the object that was given.

Around every fit, `unchanged_on_failure` is the one place where an estimator gets its attributes back after an error,
where columns get their names in error messages, and where results that are not finite are refused.

Arguments of functions, which no constraints declare, are checked by `whole_number` and its kin: an error says what was
given and what is needed.  `SavesItself` writes a fitted model to a file.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..arrays import FLOATS, on_host
from ..errors import OutsideDomain
from ..kernels import NAMED_KERNELS, Kernel, is_function
from ..kernels.width import multiple_of_median
from ..rows.checks import ScaleError

# Integers up to this are sizes and counts; for larger ones numpy raises errors that do not name the parameter.
LARGEST_COUNT = 2**31
MOST_POINTS = 100_000  # alphas, or other values, that a path may have


def whole_number(name: str, value: Any, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """`value` as an int, if it is a whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not whole or not least <= int(value) <= most:
        upper = "" if most == LARGEST_COUNT else f" to {most}"
        raise _error(whole, f"{name}={_shown(value)} must be a whole number from {least}{upper}")
    return int(value)


def check_component(component: Any, count: int, what: str = "model") -> int:
    """`component` as an int, if the model has that component."""
    if not isinstance(component, Integral) or isinstance(component, bool):
        raise TypeError(f"component={_shown(component)} must be a whole number")
    if not 0 <= int(component) < count:
        raise ValueError(f"component={component} does not exist: the {what} has {count}, numbered from 0")
    return int(component)


def positive_number(name: str, value: Any) -> float:
    """`value` as a float, if it is a finite number above zero."""
    real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not real or not 0 < float(value) < math.inf:
        raise _error(real, f"{name}={_shown(value)} must be a finite number above 0")
    return float(value)


def two_whole_numbers(name: str, value: Any, least: int = 0) -> tuple[int, int]:
    """`value` as two ints."""
    listed = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and np.ndim(value) == 1
    if not listed or len(value) != 2:
        raise _error(listed, f"{name}={_shown(value)} must be two whole numbers")
    first, second = (whole_number(name, part, least) for part in value)
    return first, second


def some_numbers(name: str, values: Any, what: str) -> np.ndarray:
    """`values` as an array of floats, (n,), if they are numbers; `what` names what is expected."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={_shown(values)} must be {what}") from error
    if found.ndim != 1 or not found.size:
        raise ValueError(f"{name}={_shown(values)} must be {what}")
    return found


def checked_scores(X: Any, n_components: int) -> np.ndarray:
    """Scores to find rows for, one column for each component."""
    scores = check_array(on_host(X), dtype=FLOATS)
    if scores.shape[1] != n_components:
        raise ValueError(f"scores have {scores.shape[1]} columns, the model has {n_components} components")
    return scores


def instance_of(name: str, value: Any, kinds: type | tuple[type, ...]) -> None:
    """Raise unless `value` is an instance of one of these classes."""
    if isinstance(value, kinds):
        return
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    is_class = isinstance(value, type)
    given = f"the class {value.__name__}" if is_class else f"a {type(value).__name__}"
    raise TypeError(f"{name} must be {'an instance of ' if is_class else 'of '}{wanted}, not {given}")


def _error(right_type: bool, message: str) -> Exception:
    return ValueError(message) if right_type else TypeError(message)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class SavesItself:
    """`save`, for everything that `kernelsieve.load` reads back."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file, atomically: arrays and JSON, no pickle.

        Parameters
        ----------
        path : path of the file; `kernelsieve.load` reads it back
        """
        from ..io import save

        save(self, path)


Class = TypeVar("Class", bound=type)


def parameter(default: Any, *constraints: Any, positional: bool = False) -> Any:
    """A parameter with its default and scikit-learn's constraints on it, one of which must hold."""
    return dataclasses.field(default=default, metadata={"constraints": list(constraints)}, kw_only=not positional)


@dataclass_transform(field_specifiers=(parameter,), eq_default=False)
def estimator(cls: Class) -> Class:
    """Make the constructor and the constraints of a class from the parameters that it and its bases declare."""
    dataclasses.dataclass(eq=False, repr=False)(cls)
    cls._parameter_constraints = {  # type: ignore[attr-defined]
        f.name: f.metadata["constraints"] for f in dataclasses.fields(cls)
    }
    return cls


def at_least(least: float, kind: type = Integral) -> Interval:
    """Numbers that are at least `least`."""
    return Interval(kind, least, None, closed="left")


def more_than(bound: float) -> Interval:
    """Real numbers above `bound`."""
    return Interval(Real, bound, None, closed="neither")


def one_of(*names: str) -> StrOptions:
    """One of these words."""
    return StrOptions(set(names))


def generator_of(random_state: Any) -> np.random.Generator:
    """The generator that `random_state` stands for; a RandomState given is advanced by it."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


class GammaRule(StrOptions):
    """A word for the width of a kernel: a rule, or a multiple of the median rule's gamma, such as "0.3 median"."""

    def __init__(self) -> None:
        super().__init__({"median", "scale", "auto", "0.3 median"})

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether `val` is a rule for gamma."""
        return isinstance(val, str) and (val in ("scale", "auto") or multiple_of_median(val) is not None)


SHARE = Interval(Real, 0, 1, closed="right")
INNER_SHARE = Interval(Real, 0, 1, closed="neither")


AS_GIVEN = "_parameters_as_given"  # where an estimator keeps the parameters as given, if it reads them as plain numbers


def plain(value: Any) -> Any:
    """A parameter as a Python number or text, which cannot overflow; anything else unchanged."""
    if isinstance(value, np.bool_ | np.str_):
        return value.item()
    # numpy's numbers and fractions; item() of a long double does not return a Python number
    if isinstance(value, Real):
        return value if isinstance(value, int | float) and type(value).__module__ != "numpy" else _number(value)
    if type(value) in (tuple, list) and any(isinstance(item, np.generic) for item in value):
        return type(value)(map(plain, value))
    return value


def _number(value: Any) -> int | float:
    return int(value) if isinstance(value, Integral) else float(value)


class MeantParameters:
    """Parameters read as plain numbers, whatever their type, and checked beyond scikit-learn's constraints."""

    _parameter_constraints: dict[str, Any]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._parameter_constraints:
            meant, given = plain(value), dict(getattr(self, AS_GIVEN, {}))
            if meant is not value or given.pop(name, None) is not None:
                if meant is not value:
                    given[name] = value
                super().__setattr__(AS_GIVEN, given)
            value = meant
        super().__setattr__(name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters as they were given.

        Include the parameters of nested estimators.

        Returns
        -------
        dict
        """
        found: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]  # of the estimator that this is part of
        return found | getattr(self, AS_GIVEN, {})

    def set_params(self, **params: Any) -> Any:
        """Set parameters of this estimator, and by ``kernel__width`` and the like those of its kernel.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self
        """
        inside = {key: value for key, value in params.items() if key.startswith("kernel__")}
        given = params.get("kernel", getattr(self, "kernel", None))
        if not inside or not isinstance(given, Kernel):
            return super().set_params(**params)  # type: ignore[misc]
        changed = given.with_params(**{key.removeprefix("kernel__"): value for key, value in inside.items()})
        others = {key: value for key, value in params.items() if key not in inside}
        return super().set_params(**{**others, "kernel": changed})  # type: ignore[misc]

    def _validate_params(self: Any) -> None:
        """Refuse booleans where a number is expected, integers too large for a count, and parameters without effect.

        Python's booleans are integers: `n_components=True` would mean one component in some places and fail in others.
        """
        super()._validate_params()  # type: ignore[misc]  # scikit-learn's, of the estimator that this is a part of
        constraints = self._parameter_constraints
        for name, value in self.get_params(deep=False).items():
            allowed = [c for c in constraints.get(name, ()) if isinstance(c, str)]
            if isinstance(value, bool) and not {"boolean", "verbose"} & set(allowed):
                raise ValueError(f"The {name!r} parameter of {type(self).__name__} must not be a bool. Got {value!r}")
            counts = isinstance(value, Integral) and name != "random_state"
            if counts and not isinstance(value, bool) and abs(int(value)) > LARGEST_COUNT:
                raise ValueError(
                    f"The {name!r} parameter of {type(self).__name__} must be at most {LARGEST_COUNT}. Got {value!r}"
                )
        if getattr(self, "kernel_params", None) and not is_function(self.kernel):
            raise ValueError(
                f"kernel_params={self.kernel_params} are for a callable kernel: for kernel={self.kernel!r} give gamma, "
                "degree and coef0"
            )
        if isinstance(getattr(self, "kernel", None), Kernel):
            defaults = {field.name: field.default for field in dataclasses.fields(self)}
            idle = [name for name in ("gamma", "degree", "coef0") if getattr(self, name, None) != defaults.get(name)]
            if idle:
                raise ValueError(
                    f"{idle[0]}={getattr(self, idle[0])!r} is for a kernel that is given by its name, and would be "
                    f"ignored: say it in kernel={self.kernel!r} itself"
                )


@estimator
class KernelParameters:
    """Parameters of every kernel estimator."""

    n_components: Any = parameter(2, at_least(1), positional=True)
    kernel: Any = parameter("rbf", one_of(*NAMED_KERNELS), callable)
    gamma: float | str | None = parameter("median", more_than(0), GammaRule(), None)
    degree: float = parameter(3, more_than(0))
    coef0: float = parameter(1, Interval(Real, None, None, closed="neither"))
    kernel_params: dict[str, Any] | None = parameter(None, dict, None)
    center: bool = parameter(True, "boolean")
    random_state: Any = parameter(None, "random_state")
    n_jobs: int | None = parameter(None, Integral, None)


@estimator
class BlockParameters:
    """Parameters of estimators that read rows in blocks and work on devices."""

    batch_size: int | None = parameter(None, at_least(1), None)
    device: str | None = parameter(None, str, None)
    verbose: bool = parameter(False, "verbose")


# Results that must be numbers, whatever the method.
RESULTS = ["explained_variance_", "explained_variance_ratio_", "eigenvalues_", "captured_ratio_", "objective_"]
RESULTS += ["components_", "mean_", "gamma_", "alpha_"]


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the block fails, is interrupted, or gives results that are not finite."""
    state = vars(estimator)
    before = dict(state)
    try:
        yield
        _refuse_what_is_not_finite(estimator)
    except BaseException as error:
        # scikit-learn still has to tear its callbacks down
        callbacks = {name: value for name, value in state.items() if "callback" in name}
        # one assignment: a second interrupt sees either the old model or the new one
        estimator.__dict__ = before | callbacks
        if isinstance(error, ScaleError | OutsideDomain):
            raise error.named(state.get("feature_names_in_")) from error
        if isinstance(error, np.linalg.LinAlgError):
            raise ValueError(
                f"the rows are too badly conditioned for {type(estimator).__name__} with these parameters ({error}): "
                "scale the columns, or ask for fewer components, a wider kernel or a larger noise or ridge"
            ) from error
        raise


def forget_fit(estimator: Any) -> None:
    """Delete fitted attributes, and the private ones that a fit leaves (those a class names in `_stale` included)."""
    stale = {*estimator._stale, "_agreement"}
    for name in [name for name in vars(estimator) if name.endswith("_") or name in stale]:
        delattr(estimator, name)


def _refuse_what_is_not_finite(estimator: Any) -> None:
    stored = vars(estimator)  # attributes that are computed on reading are not checked
    found, expansion = {name: stored.get(name) for name in RESULTS}, stored.get("expansion_")
    if expansion is not None:
        found |= {"dual_coef_": expansion.coef, "offset_": expansion.offset}
    refuse_what_is_not_finite(found)


def refuse_what_is_not_finite(found: dict[str, Any]) -> None:
    """Raise where one of these results, by name, holds NaN or infinity."""
    for name, value in found.items():
        if isinstance(value, float | np.ndarray) and not np.all(np.isfinite(value)):
            raise ValueError(
                f"these rows and parameters give no finite {name}: scale the columns (and weights) to sizes near one, "
                "or give other parameters of the kernel"
            )
