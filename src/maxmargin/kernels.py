"""Describe kernels: formulas k(u, v) over rows, their algebra, and Mercer's condition.

A kernel is its formula and parameters, nothing else; :mod:`maxmargin.grams` evaluates its flat
``program()`` in C++. Kernels add, multiply, scale and take powers (N0 section 3.3, N3).

>>> kernel = RBF(sigma=1) + 0.1 * Linear()
>>> kernel
RBF(sigma=1) + 0.1 * Linear()
>>> kernel.formula()
'exp(-0.5 ||u - v||^2) + 0.1 * (u·v)'
"""

import copy
import functools
import itertools
import math
import numbers
import operator
import re
from collections import abc
from dataclasses import KW_ONLY, dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from maxmargin.tables import facts_html

if TYPE_CHECKING:
    from maxmargin.grams import Gram

Matrix = NDArray[np.float64]
Program = list[tuple[str, float, float, float]]
Gamma = float | str  # a number, "scale" or "auto"

_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 3, 4  # how tightly a printed form binds
_MERCER = frozenset({"compiled", "mercer"})
_RADIAL = _MERCER | {"nonnegative", "stationary"}
_HISTOGRAM = _MERCER | {"nonnegative", "needs_nonnegative"}
# What a parameter may be; all are real and finite, and no bool.
_ALLOWED: dict[str, tuple[str, abc.Callable[[Any], bool]]] = {
    "gamma": ("a finite number >= 0, 'scale' or 'auto'", lambda v: v >= 0),
    "sigma": ("a finite number > 0 (1e-150 at least)", lambda v: v >= 1e-150),
    "length_scale": ("a finite number > 0", lambda v: v > 0),
    "coef0": ("a finite number", math.isfinite),
    "degree": ("an integer >= 0, below 2**31", lambda v: _is_integer(v) and 0 <= v < 2**31),
    "nu": ("0.5, 1.5 or 2.5", lambda v: v in (0.5, 1.5, 2.5)),
    "scale": ("a finite number", math.isfinite),
    "exponent": ("an integer >= 1, below 2**31", lambda v: _is_integer(v) and 1 <= v < 2**31),
}
_LATEX: tuple[tuple[str, str | abc.Callable[[re.Match[str]], str]], ...] = (
    (r"(\w+)\(u, v\)", lambda m: rf"\operatorname{{{m[1]}}}(u, v)".replace("_", r"\_")),
    (r"\((u_k - v_k\))\^2 / \((u_k \+ v_k)\)", r"\\frac{(\1^2}{\2}"),
    (r"(\d)e([+-]\d+)", lambda m: rf"{m[1]} \cdot 10^{{{int(m[2])}}}"),
    (r"\|\|u - v\|\|", r"\\lVert u - v \\rVert"),
    (r"u·v", r"u^{\\top} v"),
    (r"sqrt\((\d)\)", r"\\sqrt{\1}"),
    (r"\b(exp|tanh|min|sum)(?=[(_])", r"\\\1"),
    (r"\bgamma_(scale|auto)", r"\\gamma_{\\mathrm{\1}}"),
    (r" \* ", r" \\, "),
    (r"\^(\d+)", r"^{\1}"),
    (r"\(", r"\\left("),
    (r"\)", r"\\right)"),
)
# On escaped text: a minus that is no hyphen first, exponents before products.
_HTML: tuple[tuple[str, str | abc.Callable[[re.Match[str]], str]], ...] = (
    (r"(\d)e([+-]\d+)", lambda m: f"{m[1]}·10^{int(m[2])}"),
    (r"\^(-?\d+)", r"<sup>\1</sup>"),
    (r"\|\|u - v\|\|", "‖u - v‖"),
    (r"‖_1", "‖<sub>1</sub>"),
    (r"\b([uv]|sum)_k\b", r"\1<sub>k</sub>"),
    (r"\bgamma_(scale|auto)\b", r"γ<sub>\1</sub>"),
    (r"\bsum<", "Σ<"),
    (r"\bsqrt\((\d)\)", r"√\1"),
    (r" \* ", " × "),
    (r"(?<![\w<;])([uv])\b", r"<i>\1</i>"),
    (r"-", "−"),
)
_LONG = 200  # characters of a constructor in a notebook


def _trait(name: str, doc: str) -> Any:
    return property(lambda kernel: kernel._has(name), doc=doc)


@dataclass_transform(eq_default=False)
class Kernel:
    """Hold a kernel's formula and parameters; the base of all kernels.

    Constructors only store; ``resolve`` and ``program`` check, so ``sklearn.base.clone`` works.

    Examples
    --------
    >>> kernel = 2 * RBF(gamma=0.5) ** 2
    >>> kernel([[0.0]], [[1.0]]).round(4)
    array([[0.7358]])
    >>> kernel.set_params(kernel__kernel__gamma=1.0)
    2 * RBF(gamma=1.0) ** 2
    """

    __array_ufunc__ = None  # numpy scalars and arrays on the left hand over to __rmul__
    _op: ClassVar[str] = ""
    _form: ClassVar[str] = ""
    _rank: ClassVar[int] = _ATOM
    _traits: ClassVar[frozenset[str]] = frozenset()
    _apply: ClassVar[abc.Callable[..., Any]] = operator.pos
    _parts: ClassVar[dict[str, int]] = {}  # parameter -> how tightly it must bind, or brackets

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:  # parameters are dataclass fields, so leaves stay short
        dataclass(repr=False, eq=False)(cls)

    compiled: ClassVar[bool] = _trait("compiled", "Whether C++ evaluates it.")
    nonnegative: ClassVar[bool] = _trait("nonnegative", "Whether values are known to be >= 0.")
    stationary: ClassVar[bool] = _trait("stationary", "Whether only a norm of u - v enters.")
    needs_nonnegative: ClassVar[bool] = _trait("needs_nonnegative", "Whether data must be >= 0.")

    @property
    def mercer(self) -> bool | None:
        """True if positive semi-definite by construction, None if that is not known."""
        return self._has("mercer") or None

    def _has(self, trait: str) -> bool:
        return trait in self._traits

    @property
    def parts(self) -> tuple["Kernel", ...]:
        """The kernels a composition is made of; a leaf has none."""
        return tuple(_composable(getattr(self, name)) for name in self._parts)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; deep adds those of parts, as ``left__gamma``."""
        params = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, part in list(params.items()) if deep else []:
            if isinstance(part, Kernel):
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, ``left__gamma`` reaching into parts; return the kernel."""
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, inside, rest = key.partition("__")
            if name not in (self._parts if inside else self.get_params(deep=False)):
                allowed = ", ".join(self.get_params()) or "none"
                raise ValueError(f"Invalid parameter {key!r} for {self!r}; it has: {allowed}.")
            if inside:
                nested.setdefault(name, {})[rest] = value
            else:
                self._set(name, value)
        for name, values in nested.items():
            # On a copy: in k + k, or when k is used elsewhere too, only this part may change.
            self._set(name, copy.copy(getattr(self, name)).set_params(**values))
        return self

    def _set(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel) or type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return mine.keys() == theirs.keys() and all(_same(mine[key], theirs[key]) for key in mine)

    def __hash__(self) -> int:
        return hash((type(self), *self.get_params(deep=False).values()))

    def _template(self) -> str:
        return self._form

    def _show(self, formula: bool) -> tuple[int, str]:
        """Return how tightly the printed form binds, and that form: formula or constructor."""
        if formula:
            text = self._template().format(**{k: _short(v) for k, v in self._values().items()})
            return self._rank, re.sub(r"(?<![\w.])1 (?=[us|])| \+ 0(?=\))|/1(?![\d.e])", "", text)
        given = [f"{f.name}={_plain(getattr(self, f.name))!r}" for f in fields(self)]
        usual = {f"{f.name}={f.default!r}" for f in fields(self)}
        shown = ", ".join(text for text in given if text not in usual)
        return _ATOM, f"{type(self).__name__}({shown})"

    def __repr__(self) -> str:
        return self._show(formula=False)[1]

    def formula(self) -> str:
        """Return the formula as plain text, such as ``exp(-0.5 ||u - v||^2)``."""
        return self._show(formula=True)[1].replace("+ -", "- ")

    def _repr_latex_(self) -> str:
        text = self.formula()
        for pattern, latex in _LATEX:
            text = re.sub(pattern, latex, text)
        return f"${text}$"

    def _repr_html_(self) -> str:
        text = escape(self.formula())
        for pattern, html in _HTML:
            text = re.sub(pattern, html, text)
        name = repr(self)
        shown = name if len(name) <= _LONG else f"{name[:_LONG]}..."
        return f"<div><code>{escape(shown)}</code><br/>k(<i>u</i>, <i>v</i>) = {text}</div>"

    def __add__(self, other: object) -> "Kernel":
        return Sum(_composable(self), _composable(other))

    def __mul__(self, other: object) -> "Kernel":
        if _is_real(other):
            return Scaled(_composable(self), _plain(other))
        return Product(_composable(self), _composable(other))

    __rmul__ = __mul__

    def __radd__(self, other: object) -> "Kernel":
        return self if _is_real(other) and other == 0 else self + other  # sum([...]) starts at 0

    def __pow__(self, exponent: object) -> "Kernel":
        if not _is_integer(exponent) or int(exponent) < 1:
            raise TypeError(f"A kernel takes powers with a positive integer; got {exponent!r}.")
        return Power(_composable(self), int(exponent))

    def combine(self, *matrices: Matrix) -> Matrix:
        """Return a composition's matrix from the matrices of its ``parts``."""
        matrix: Matrix = self._apply(*matrices, *self._values().values())
        return matrix

    def _values(self) -> dict[str, Any]:
        """Return the numbers of the kernel's line in the program, in order, unchecked."""
        return {k: v for k, v in self.get_params(deep=False).items() if k not in self._parts}

    def _code(self) -> Program:
        """Check all parameters and return the program; what is not compiled has an empty op."""
        a, b, c, *_ = [_value(self, k, v) for k, v in self._values().items()] + [0.0, 0.0, 0.0]
        lines = [line for part in self.parts for line in part._code()]
        return [*lines, (self._op, a, b, c)]

    def program(self) -> Program:
        """Return the postfix program, lines ``(op, a, b, c)``, that the C++ core evaluates.

        >>> (Linear() ** 2).program()
        [('linear', 0.0, 0.0, 0.0), ('pow', 2.0, 0.0, 0.0)]
        """
        code = self._code()
        if not self.compiled:
            raise TypeError(f"{self!r} has no program: Callable and Precomputed are not compiled.")
        return code

    def resolve(self, X: Any, sample_weight: Any = None) -> "Kernel":
        r"""Check the parameters and turn ``gamma="scale"`` and ``"auto"`` into numbers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 counts a row twice.

        Returns
        -------
        Kernel
            The kernel itself if it already has only numbers.

        Notes
        -----
        "auto" is :math:`1/d`; "scale" is :math:`1/(d \operatorname{Var} X)` with the variance of
        all cells of X, or 1 if that is 0.

        Examples
        --------
        >>> RBF().resolve([[0.0, 2.0], [0.0, 2.0]])
        RBF(gamma=0.5)
        """
        kernel = self._resolve(functools.cache(lambda rule: _gamma(rule, X, sample_weight)))
        kernel._code()
        return kernel

    def _resolve(self, number: abc.Callable[[str], float]) -> "Kernel":
        parts = zip(self._parts, self.parts, strict=True)
        new: dict[str, Any] = {name: part._resolve(number) for name, part in parts}
        gamma = self._values().get("gamma")
        if isinstance(gamma, str):
            new["gamma"] = number(gamma)
        same = all(value is getattr(self, name) for name, value in new.items())
        return self if same else copy.copy(self).set_params(**new)

    # kernels stand leftmost in the import order, so these two import grams only when called.
    def __call__(self, X: Any, Z: Any = None) -> Matrix:
        """Return the matrix k(X_i, Z_j) in float64; Z is X by default."""
        from maxmargin import grams

        return grams.evaluate(self, X, Z)

    def gram(self, X: Any, **options: Any) -> "Gram":
        """Return the :class:`~maxmargin.grams.Gram` of the rows of X."""
        from maxmargin import grams

        return grams.Gram(self, X, **options)

    def n_features(self, m: int) -> int:
        """Return how many columns ``feature_map`` makes of m features."""
        raise TypeError(
            f"{self!r} has no finite feature map of {m} features here; Linear and Polynomial have."
        )

    def feature_map(self, X: Any, *, max_features: int = 100_000) -> Matrix:
        """Return explicit features whose inner products are the kernel, N0 (58).

        More columns than max_features are refused, with their number.

        >>> Polynomial(2).feature_map([[3.0, 1.0]])  # N3: x1^2, sqrt(2) x1 x2, x2^2
        array([[9.        , 4.24264069, 1.        ]])
        """
        X = _table(X)
        if (count := self.n_features(X.shape[1])) > max_features:
            raise ValueError(
                f"The feature map of {self!r} on {X.shape[1]} features has {count:,} terms, more "
                f"than max_features={max_features:,}; use the kernel itself."
            )
        dense = X.toarray() if hasattr(X, "toarray") else X
        return self._map(np.asarray(dense, dtype=np.float64))

    def _map(self, X: Matrix) -> Matrix:
        return X


class Linear(Kernel):
    r"""Take the inner product :math:`u^\top v` (N0, Example 3.8).

    >>> Linear()([[1, 2]], [[3, 4]])
    array([[11.]])
    """

    _op, _form, _rank, _traits = "linear", "u·v", _PRODUCT, _MERCER

    def n_features(self, m: int) -> int:
        """Return m: the feature map is the identity."""
        return m


class Polynomial(Kernel):
    r"""Raise the inner product to a power: :math:`(\gamma\, u^\top v + c)^d`.

    The defaults are the notes' plain form; ``SVC(kernel="poly")`` has ``gamma="scale"``.

    Parameters
    ----------
    degree : int >= 0, default=3
    gamma : float >= 0, "scale" or "auto", default=1.0
    coef0 : float, default=0.0
        0 takes the monomials of exactly this degree, 1 those up to it (N3); < 0 is not Mercer.

    Examples
    --------
    >>> Polynomial(degree=6).n_features(100)  # N3: about 1.6 billion terms
    1609344100
    """

    degree: int = 3
    _: KW_ONLY
    gamma: Gamma = 1.0
    coef0: float = 0.0
    _op, _form, _rank, _traits = "poly", "({gamma} u·v + {coef0})^{degree}", _POWER, _MERCER

    def _has(self, trait: str) -> bool:
        if trait == "nonnegative":
            return self.degree % 2 == 0
        return super()._has(trait) and (trait != "mercer" or self.coef0 >= 0)

    def _values(self) -> dict[str, Any]:
        return {"gamma": self.gamma, "coef0": self.coef0, "degree": self.degree}

    def n_features(self, m: int) -> int:
        """Return N3's number of terms, C(d + m - 1, d); coef0 counts as one more feature."""
        _, _, coef0, _ = self._code()[0]
        if coef0 < 0:
            raise ValueError(f"{self!r} has no real feature map: coef0 must be >= 0.")
        return math.comb(self.degree + m + (coef0 > 0) - 1, self.degree)

    def _map(self, X: Matrix) -> Matrix:
        # N0 (59), equal coordinates merged: sqrt(d! / prod a_i!) prod x_i^a_i. Degrees up to d
        # in x are degree exactly d in (x, sqrt(coef0)).
        _, gamma, coef0, _ = self._code()[0]
        X = math.sqrt(gamma) * X
        if coef0 > 0:
            X = np.hstack([X, np.full((len(X), 1), math.sqrt(coef0))])
        chosen = list(itertools.combinations_with_replacement(range(X.shape[1]), self.degree))
        terms = np.array(chosen, dtype=np.intp).reshape(len(chosen), self.degree)
        features = np.ones((len(X), len(terms)))
        repeats = squared = np.ones(len(terms))
        for k, column in enumerate(terms.T):
            repeats = np.where(column == terms[:, k - 1], repeats + 1, 1) if k else repeats
            squared = squared * (k + 1) / repeats
            features *= X[:, column]
        return features * np.sqrt(squared)


class RBF(Kernel):
    r"""Weigh the distance by a Gaussian: :math:`\exp(-\gamma \|u - v\|^2)` (N0, Example 3.9).

    Parameters
    ----------
    gamma : float >= 0, "scale" or "auto", default=None
        None means "scale" unless sigma is given.
    sigma : float > 0, default=None
        The bandwidth, :math:`\gamma = 1 / (2 \sigma^2)`; gamma and sigma exclude each other.

    Examples
    --------
    >>> RBF(sigma=1)([[1, 1]], [[2, -3]])  # N0: exp(-17/2)
    array([[0.00020347]])
    """

    gamma: Gamma | None = None
    _: KW_ONLY
    sigma: float | None = None
    _op, _form, _traits = "rbf", "exp(-{gamma} ||u - v||^2)", _RADIAL

    def _values(self) -> dict[str, Any]:
        if self.sigma is None:
            return {"gamma": "scale" if self.gamma is None else self.gamma}
        if self.gamma is not None:
            raise ValueError(f"{self!r}: give gamma or sigma, not both; set the other to None.")
        sigma = _value(self, "sigma", self.sigma)
        return {"gamma": 0.5 / (sigma * sigma)}


class Laplacian(Kernel):
    r"""Let similarity fall with the city-block distance: :math:`\exp(-\gamma \|u - v\|_1)`.

    gamma is a number >= 0, "scale" or, as in scikit-learn's ``laplacian_kernel``, "auto" = 1/d.

    >>> Laplacian(gamma=2).formula()
    'exp(-2 ||u - v||_1)'
    """

    gamma: Gamma = "auto"
    _op, _form, _traits = "laplacian", "exp(-{gamma} ||u - v||_1)", _RADIAL


class Sigmoid(Kernel):
    r"""Squash the inner product: :math:`\tanh(\gamma\, u^\top v + c)` (N3); not Mercer.

    >>> mercer(Sigmoid(gamma=1, coef0=-1), [[1.0], [2.0]]).verdict
    'indefinite'
    """

    gamma: Gamma = "scale"
    _: KW_ONLY
    coef0: float = 0.0
    _op, _form, _traits = "sigmoid", "tanh({gamma} u·v + {coef0})", frozenset({"compiled"})


class Matern(Kernel):
    r"""Let similarity fall with the distance, the smoother the larger nu (0.5, 1.5 or 2.5).

    Notes
    -----
    With :math:`r = \|u - v\| / \ell`: :math:`e^{-r}`, :math:`(1 + \sqrt 3 r) e^{-\sqrt 3 r}` and
    :math:`(1 + \sqrt 5 r + 5 r^2 / 3) e^{-\sqrt 5 r}`, as in scikit-learn's Gaussian processes.

    >>> Matern(length_scale=2).formula()
    '(1 + sqrt(3) ||u - v||/2) exp(-sqrt(3) ||u - v||/2)'
    """

    nu: float = 1.5
    _: KW_ONLY
    length_scale: float = 1.0
    _op, _rank, _traits = "matern", _PRODUCT, _RADIAL

    def _template(self) -> str:
        forms = {0.5: "exp(-r)", 1.5: "(1 + sqrt(3) r) exp(-sqrt(3) r)"}
        forms[2.5] = "(1 + sqrt(5) r + 5/3 (r)^2) exp(-sqrt(5) r)"
        r = "||u - v||/{length_scale}"
        return re.sub(r"\br\b", r, forms.get(self.nu, "Matern(u, v)"))


class Chi2(Kernel):
    r"""Compare histograms: :math:`\exp(-\gamma \sum_k (u_k - v_k)^2 / (u_k + v_k))`, 0/0 = 0.

    Needs data >= 0; scikit-learn's ``chi2_kernel``.

    >>> Chi2()([[0, 1]], [[0, 3]])
    array([[0.36787944]])
    """

    gamma: Gamma = 1.0
    _op, _traits = "chi2", _HISTOGRAM
    _form = "exp(-{gamma} sum_k (u_k - v_k)^2 / (u_k + v_k))"


class HistogramIntersection(Kernel):
    r"""Add up what two histograms share: :math:`\sum_k \min(u_k, v_k)`; needs data >= 0.

    >>> HistogramIntersection()([[1, 5]], [[2, 3]])
    array([[4.]])
    """

    _op, _form, _rank, _traits = "intersection", "sum_k min(u_k, v_k)", _SUM, _HISTOGRAM


class Precomputed(Kernel):
    """Say that X already is the kernel matrix; does not compose.

    Examples
    --------
    >>> Precomputed().gram([[2.0, 1.0], [1.0, 2.0]]).diag
    array([2., 2.])
    """

    _form = "K(u, v)"


class Callable(Kernel):
    """Wrap a Python function ``f(X, Z, **kw)`` that returns the kernel matrix.

    >>> Callable(lambda X, Z, power: (X @ Z.T) ** power, power=2).set_params(power=3)
    Callable(<lambda>, power=3)
    """

    function: abc.Callable[..., Any]
    kw: dict[str, Any]

    def __init__(self, function: abc.Callable[..., Any], **kw: Any) -> None:
        self.function, self.kw = function, kw

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the function and the keywords it is called with."""
        return {"function": self.function, **self.kw}

    def _set(self, name: str, value: Any) -> None:
        if name == "function":
            self.function = value
        else:
            self.kw = {**self.kw, name: value}

    def __hash__(self) -> int:
        return hash((Callable, frozenset(self.kw)))  # values may be arrays, which have no hash

    def _show(self, formula: bool) -> tuple[int, str]:
        name = str(getattr(self.function, "__name__", type(self.function).__name__))
        if formula:
            return _ATOM, f"{name.replace('<lambda>', 'f')}(u, v)"
        return _ATOM, f"Callable({', '.join([name, *(f'{k}={v!r}' for k, v in self.kw.items())])})"

    def _values(self) -> dict[str, Any]:
        if not callable(self.function):
            raise TypeError(f"Callable needs a function f(X, Z); got {self.function!r}.")
        return {}


class _Composition(Kernel):
    def _has(self, trait: str) -> bool:
        some = any if trait == "needs_nonnegative" else all
        return some(part._has(trait) for part in self.parts)

    def _show(self, formula: bool) -> tuple[int, str]:
        write = _short if formula else _plain
        shown = {name: write(value) for name, value in self._values().items()}
        for name, least in self._parts.items():
            rank, text = getattr(self, name)._show(formula)
            shown[name] = text if rank >= least else f"({text})"
        text = self._form.format(**shown)
        return self._rank, text.replace(" ** ", "^") if formula else text


class Sum(_Composition):
    """Add two kernels: what ``left + right`` makes.

    Examples
    --------
    >>> (Linear() + Polynomial(2)).formula()
    'u·v + (u·v)^2'
    """

    left: Kernel
    right: Kernel
    _op, _form, _rank, _apply = "add", "{left} + {right}", _SUM, operator.add
    _parts: ClassVar[dict[str, int]] = {"left": _SUM, "right": _PRODUCT}


class Product(_Composition):
    """Multiply two kernels: what ``left * right`` makes.

    Examples
    --------
    >>> (Linear() * RBF(gamma=1.0))([[1.0]], [[1.0]])
    array([[1.]])
    """

    left: Kernel
    right: Kernel
    _op, _form, _rank, _apply = "mul", "{left} * {right}", _PRODUCT, operator.mul
    _parts: ClassVar[dict[str, int]] = {"left": _PRODUCT, "right": _POWER}


class Scaled(_Composition):
    """Multiply a kernel by a number: what ``scale * kernel`` makes.

    Examples
    --------
    >>> (3 * Linear())([[1.0]], [[2.0]])
    array([[6.]])
    """

    kernel: Kernel
    scale: float
    _op, _form, _rank, _apply = "scale", "{scale} * {kernel}", _PRODUCT, operator.mul
    _parts: ClassVar[dict[str, int]] = {"kernel": _POWER}

    def _has(self, trait: str) -> bool:
        return super()._has(trait) and (self.scale >= 0 or trait not in ("mercer", "nonnegative"))


class Power(_Composition):
    """Raise a kernel to a positive integer: what ``kernel ** exponent`` makes.

    Examples
    --------
    >>> (Linear() ** 3)([[1.0]], [[2.0]])
    array([[8.]])
    """

    kernel: Kernel
    exponent: int
    _op, _form, _rank, _apply = "pow", "{kernel} ** {exponent}", _POWER, operator.pow
    _parts: ClassVar[dict[str, int]] = {"kernel": _ATOM}

    def _has(self, trait: str) -> bool:
        return super()._has(trait) or (trait == "nonnegative" and self.exponent % 2 == 0)


def as_kernel(
    kernel: Any, *, degree: int = 3, gamma: Gamma = "scale", coef0: float = 0.0
) -> Kernel:
    """Return the Kernel for one of scikit-learn's names, a Kernel or a callable.

    >>> as_kernel("poly", degree=2, gamma=1.0)
    Polynomial(degree=2)
    """
    if isinstance(kernel, Kernel):
        return kernel
    named = {
        "linear": Linear(),
        "poly": Polynomial(degree, gamma=gamma, coef0=coef0),
        "rbf": RBF(gamma=gamma),
        "sigmoid": Sigmoid(gamma, coef0=coef0),
        "precomputed": Precomputed(),
    }
    if isinstance(kernel, str) and kernel in named:
        return named[kernel]
    if isinstance(kernel, str) or not callable(kernel) or isinstance(kernel, type):
        raise ValueError(
            f"kernel={kernel!r} is not known; allowed are {', '.join(map(repr, named))}, a Kernel "
            f"such as kernels.RBF(sigma=1.0), or a function f(X, Z)."
        )
    return Callable(kernel)


@dataclass(frozen=True, repr=False, eq=False)
class MercerReport:
    """Tell whether a matrix is a Gram matrix; what ``mercer`` returns.

    Examples
    --------
    >>> report = mercer([[1.0, 2.0], [2.0, 1.0]])
    >>> report.psd, report.smallest_eigenvalue
    (False, -1.0)
    >>> report.nearest
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """

    symmetric: bool
    asymmetry: float  # largest |K_ij - K_ji|
    smallest_eigenvalue: float  # of the symmetric part
    largest_eigenvalue: float
    verdict: str  # "positive semi-definite", "indefinite" or "not symmetric"
    nearest: Matrix  # the nearest positive semi-definite matrix in Frobenius norm
    by_construction: bool | None  # the kernel's own `mercer`: true on all data, not these alone

    @property
    def psd(self) -> bool:
        """Whether the verdict is "positive semi-definite"."""
        return self.verdict == "positive semi-definite"

    def __repr__(self) -> str:
        small, large = self.smallest_eigenvalue, self.largest_eigenvalue
        return f"{self.verdict}, eigenvalues {small:.3g} to {large:.3g}"

    def _repr_html_(self) -> str:
        known = "by construction" if self.by_construction else "on these data"
        names = ("asymmetry", "smallest_eigenvalue", "largest_eigenvalue")
        facts = {name.replace("_", " "): f"{getattr(self, name):.3g}" for name in names}
        return facts_html(f"{self.verdict} {known}", facts)


def mercer(kernel_or_matrix: Any, X: Any = None) -> MercerReport:
    r"""Check Mercer's condition: symmetric, and no eigenvalue below 0 (N0, Theorem 3.11).

    Parameters
    ----------
    kernel_or_matrix : Kernel, kernel name, callable or array-like of shape (n, n)
    X : {array-like, sparse matrix} of shape (n, n_features), default=None
        The rows, if a kernel is given.

    Notes
    -----
    Rounding is forgiven up to :math:`n \epsilon \max_i |\lambda_i|`, with the precision of the
    input. The nearest matrix has the symmetric part's negative eigenvalues set to 0 (Higham 1988).

    Examples
    --------
    >>> mercer([[1.0, 2.0], [2.0, 1.0]])
    indefinite, eigenvalues -1 to 3
    """
    is_kernel = isinstance(kernel_or_matrix, str) or callable(kernel_or_matrix)
    kernel = as_kernel(kernel_or_matrix) if is_kernel else Precomputed()
    source = X if is_kernel else kernel_or_matrix
    if source is None or (X is not None and not is_kernel):
        raise TypeError("mercer takes a kernel and rows X, or a matrix alone.")
    given = kernel.resolve(source)(source) if is_kernel else _table(source)
    K = np.asarray(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64)
    if K.shape[0] != K.shape[1] or not np.isfinite(K).all():
        raise ValueError(f"A kernel matrix is square and finite; got shape {K.shape}.")
    half = 0.5 * (K + K.T)
    eigenvalues, vectors = np.linalg.eigh(half)
    coarse = getattr(source, "dtype", None) in (np.float16, np.float32)
    eps = np.finfo(source.dtype if coarse else np.float64).eps
    tol = len(K) * float(eps) * float(np.abs(eigenvalues).max())
    asymmetry = float(np.abs(K - K.T).max())
    positive = bool(eigenvalues[0] >= -tol)
    nearest = half if positive else (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    verdict = "positive semi-definite" if positive else "indefinite"
    return MercerReport(
        symmetric=asymmetry <= tol,
        asymmetry=asymmetry,
        smallest_eigenvalue=float(eigenvalues[0]),
        largest_eigenvalue=float(eigenvalues[-1]),
        verdict=verdict if asymmetry <= tol else "not symmetric",
        nearest=0.5 * (nearest + nearest.T),
        by_construction=kernel.mercer,
    )


def _composable(kernel: object) -> Kernel:
    if isinstance(kernel, Precomputed):
        raise TypeError("Precomputed() does not compose: combine the matrices themselves.")
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel) and not isinstance(kernel, type):
        return Callable(kernel)
    what = type(kernel).__name__
    raise TypeError(f"Kernels combine with kernels and, by *, real numbers; got {what}.")


def _is_real(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _value(kernel: Kernel, name: str, value: Any) -> float:
    """Return a parameter as a float, or say what it may be."""
    allowed, test = _ALLOWED[name]
    if name == "gamma" and isinstance(value, str) and value in ("scale", "auto"):
        raise ValueError(f"{kernel!r} has no number for gamma yet: call resolve(X) first.")
    if not (_is_real(value) and math.isfinite(value) and test(value)):
        raise ValueError(f"{kernel!r}: {name} must be {allowed}; got {value!r}.")
    return float(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _short(value: Any) -> str:
    return f"{float(value):.6g}" if _is_real(value) else f"gamma_{value}"


def _same(a: Any, b: Any) -> bool:
    arrays = isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
    return np.array_equal(a, b) if arrays else a is b or bool(a == b)


def _table(X: Any) -> Any:
    X = X if hasattr(X, "tocsr") else np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X needs two dimensions, rows and features; got shape {X.shape}.")
    return X


def _gamma(rule: str, X: Any, sample_weight: Any) -> float:
    """Return what "scale" or "auto" is on these rows, as in ``sklearn.svm``."""
    if rule not in ("scale", "auto"):
        raise ValueError(f"gamma must be {_ALLOWED['gamma'][0]}; got {rule!r}.")
    X = _table(X)
    variance = _variance(X, sample_weight) if rule == "scale" else 1.0
    if not math.isfinite(variance):
        raise ValueError("gamma='scale' needs the variance of X, which is not finite (NaN, inf?).")
    return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0


def _variance(X: Any, sample_weight: Any) -> float:
    """Return the variance of all cells, each row counted as often as its weight says."""
    n, d = X.shape
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not (weight >= 0).all() or not 0 < weight.sum() < np.inf:
        raise ValueError(f"sample_weight needs {n} finite numbers >= 0, not all 0.")
    X = X.tocsr() if hasattr(X, "tocsr") else X
    # Relative to one of the cells, constant data have variance 0 without rounding.
    pivot = float(X[int(np.argmax(weight)), 0])
    total = float(d * weight.sum())
    with np.errstate(over="ignore", invalid="ignore"):  # the caller tests the result
        mean = sum(float(np.sum(w * cells)) for w, cells in _cells(X, weight, pivot)) / total
        squares = (float(np.sum(w * (cells - mean) ** 2)) for w, cells in _cells(X, weight, pivot))
        return float(sum(squares)) / total


def _cells(X: Any, weight: Matrix, pivot: float) -> abc.Iterator[tuple[Matrix, Matrix]]:
    """Yield weights and cells minus pivot in float64, a few rows at a time.

    The cells that a sparse X does not store are one cell of value 0 and of all their weight.
    """
    n, d = X.shape
    if not hasattr(X, "tocsr"):
        step = max(1, 2**16 // d)
        for i in range(0, n, step):
            yield weight[i : i + step, None], X[i : i + step].astype(np.float64) - pivot
        return
    if not X.has_canonical_format:  # an entry stored twice means the sum
        X = X.copy()
        X.sum_duplicates()
    stored = np.diff(X.indptr)
    yield np.repeat(weight, stored), X.data.astype(np.float64) - pivot
    yield np.array([weight @ (d - stored)]), np.array([-pivot])
