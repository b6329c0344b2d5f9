"""Tools that make a class an estimator: parameters declared once, and fits that succeed or change nothing.

    @estimator
    class Example(KernelTransformer):
        n_components: int = parameter(2, at_least(1), positional=True)
        alpha: float = parameter(0.1, more_than(0))

generates the constructor that scikit-learn inspects, keyword-only except for positional parameters, and the
constraints that `fit` checks.  Inherited parameters need not be repeated; a class may give them another default.

Numbers may be numpy scalars.  They are stored as Python numbers, because an eight-bit `gamma=np.uint8(5)` would
overflow in the first product; `get_params` still returns the object that was given.

Every fit runs inside `unchanged_on_failure`, which restores the attributes of the estimator after an error, puts the
names of columns into error messages, and refuses results that are not finite.

Constraints cover only constructor parameters.  Arguments of functions are checked by `whole_number` and similar
functions, whose errors say what was given and what is needed.  `SavesItself` writes a fitted model to a file.
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
from ..errors import UnusableColumn
from ..kernels import NAMED_KERNELS, Kernel, is_function
from ..kernels.width import multiple_of_median

# Larger integers are refused as sizes and counts; numpy would raise errors that do not name the parameter.
LARGEST_COUNT = 2**31
MOST_POINTS = 100_000  # a path may have at most this many alphas or noise variances


def whole_number(name: str, value: Any, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """`value` as an int; raise unless it is a whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if not whole or not least <= int(value) <= most:
        upper = "" if most == LARGEST_COUNT else f" to {most}"
        raise _error(whole, f"{name}={_shown(value)} must be a whole number from {least}{upper}")
    return int(value)


def check_component(component: Any, count: int, what: str = "model") -> int:
    """`component` as an int; raise unless the model has a component of that number."""
    if not isinstance(component, Integral) or isinstance(component, bool):
        raise TypeError(f"component={_shown(component)} must be a whole number")
    if not 0 <= int(component) < count:
        raise ValueError(f"component={component} does not exist: the {what} has {count}, numbered from 0")
    return int(component)


def positive_number(name: str, value: Any) -> float:
    """`value` as a float; raise unless it is a finite number above zero."""
    real = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not real or not 0 < float(value) < math.inf:
        raise _error(real, f"{name}={_shown(value)} must be a finite number above 0")
    return float(value)


def two_whole_numbers(name: str, value: Any, least: int = 0) -> tuple[int, int]:
    """`value` as two ints; raise unless it is a sequence of two whole numbers of at least `least`."""
    listed = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) and np.ndim(value) == 1
    if not listed or len(value) != 2:
        raise _error(listed, f"{name}={_shown(value)} must be two whole numbers")
    first, second = (whole_number(name, part, least) for part in value)
    return first, second


def some_numbers(name: str, values: Any, what: str) -> np.ndarray:
    """(n,) `values` as an array of floats; the error for anything else says `what` is expected."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={_shown(values)} must be {what}") from error
    if found.ndim != 1 or not found.size:
        raise ValueError(f"{name}={_shown(values)} must be {what}")
    return found


def checked_scores(X: Any, n_components: int) -> np.ndarray:
    """Validated scores whose pre-images are wanted, (n, M)."""
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
    """The method `save` of everything that `kernelsieve.load` can read."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file, atomically: arrays and JSON, no pickle.

        Parameters
        ----------
        path : str or path-like
            Name of the file, which `kernelsieve.load` reads.
        """
        from ..io import save

        save(self, path)


Class = TypeVar("Class", bound=type)


def parameter(default: Any, *constraints: Any, positional: bool = False) -> Any:
    """Declare a parameter with its default and its constraints, as in scikit-learn: one of them must hold."""
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
    """A constraint that allows numbers from `least` upwards."""
    return Interval(kind, least, None, closed="left")


def more_than(bound: float) -> Interval:
    """A constraint that allows real numbers above `bound`."""
    return Interval(Real, bound, None, closed="neither")


def one_of(*names: str) -> StrOptions:
    """A constraint that allows only these strings."""
    return StrOptions(set(names))


def generator_of(random_state: Any) -> np.random.Generator:
    """A random generator seeded from `random_state`; if that is a RandomState, a number is drawn from it."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


class GammaRule(StrOptions):
    """A constraint that allows the names of rules for gamma, and multiples of the median rule such as "0.3 median"."""

    def __init__(self) -> None:
        super().__init__({"median", "scale", "auto", "0.3 median"})

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether `val` is a rule for gamma."""
        return isinstance(val, str) and (val in ("scale", "auto") or multiple_of_median(val) is not None)


SHARE = Interval(Real, 0, 1, closed="right")
INNER_SHARE = Interval(Real, 0, 1, closed="neither")


AS_GIVEN = "_parameters_as_given"  # the attribute that holds given parameters which were converted to plain numbers


def plain(value: Any) -> Any:
    """A numpy number or string as a Python object, which cannot overflow; anything else is returned unchanged."""
    if isinstance(value, np.bool_ | np.str_):
        return value.item()
    # This converts numpy numbers and fractions. item() would not do: for a long double it returns no Python number.
    if isinstance(value, Real):
        return value if isinstance(value, int | float) and type(value).__module__ != "numpy" else _number(value)
    if type(value) in (tuple, list) and any(isinstance(item, np.generic) for item in value):
        return type(value)(map(plain, value))
    return value


def _number(value: Any) -> int | float:
    return int(value) if isinstance(value, Integral) else float(value)


class MeantParameters:
    """Stores parameters as plain Python numbers, and checks them beyond scikit-learn's constraints."""

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
        """Parameters of this estimator, as they were given.

        Parameters
        ----------
        deep : bool, default=True
            Include the parameters of nested objects, such as those of a kernel.

        Returns
        -------
        dict
        """
        found: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]  # a method of BaseEstimator
        return found | getattr(self, AS_GIVEN, {})

    def set_params(self, **params: Any) -> Any:
        """Set parameters of this estimator; names such as ``kernel__width`` set those of its kernel.

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
        super()._validate_params()  # type: ignore[misc]  # a method of BaseEstimator
        for name, constraints in self._parameter_constraints.items():
            value, allowed = getattr(self, name), [c for c in constraints if isinstance(c, str)]
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
    """Parameters that all kernel estimators have."""

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
    """Parameters of estimators that can read rows in blocks and compute on devices."""

    batch_size: int | None = parameter(None, at_least(1), None)
    device: str | None = parameter(None, str, None)
    verbose: bool = parameter(False, "verbose")


# Fitted attributes that must be finite after every fit.
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
        # The state of callbacks is kept, because scikit-learn still has to tear them down.
        callbacks = {name: value for name, value in state.items() if "callback" in name}
        # A single assignment, so that a second interrupt cannot leave a mixture of two models.
        estimator.__dict__ = before | callbacks
        if isinstance(error, UnusableColumn):
            raise error.named(state.get("feature_names_in_")) from error
        if isinstance(error, np.linalg.LinAlgError):
            raise ValueError(
                f"the rows are too badly conditioned for {type(estimator).__name__} with these parameters ({error}): "
                "scale the columns, or ask for fewer components, a wider kernel or a larger noise or ridge"
            ) from error
        raise


def forget_fit(estimator: Any) -> None:
    """Delete the fitted attributes, and the private attributes of a fit that the class lists in `_stale`."""
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
    """Raise if one of these results, given by name, contains NaN or infinity."""
    for name, value in found.items():
        if isinstance(value, float | np.ndarray) and not np.all(np.isfinite(value)):
            raise ValueError(
                f"these rows and parameters give no finite {name}: scale the columns (and weights) to sizes near one, "
                "or give other parameters of the kernel"
            )
