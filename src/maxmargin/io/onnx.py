"""ONNX: machines written with ONNX's own operators, and run with onnxruntime.

`register` makes converters for our estimators known to skl2onnx, so that pipelines of scikit-learn
with one of them at the end are converted too. Scores are computed in float64 inside, whatever the
input is.
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin import kernels
from maxmargin.calibration import LEAST
from maxmargin.estimators.logistic import KernelLogisticRegression
from maxmargin.estimators.one_class import OneClassSVM
from maxmargin.estimators.ridge import KernelRidge, KernelRidgeCV
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, NuSVR
from maxmargin.io.ranges import Ranges
from maxmargin.kernels import Kernel

__all__ = ["OnnxModel", "register", "to_onnx"]

Floats = NDArray[np.float64]

CLASSIFIERS = (SVC, NuSVC, KernelLogisticRegression)
REGRESSORS = (SVR, NuSVR, KernelRidge, KernelRidgeCV)
_OPSET = 18
_SINGLE = 2.0**-25  # what rounding of the rows to float32 does to a kernel value


def _needs(error: ImportError) -> ImportError:
    return ImportError(f"ONNX files need {error.name}: pip install 'maxmargin[onnx]'.")


def _quiet(module: str) -> Any:
    """Import a library that warns of others' deprecations."""
    from importlib import import_module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(module)
    except ImportError as error:
        raise _needs(error) from error


# ---- a small language over ONNX's operators ---------------------------------------------------


class _Graph:
    """Adds operators to the graph that skl2onnx builds; values are names."""

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container = scope, container
        self.types = _quiet("onnx").TensorProto

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Apply an operator of one output."""
        out: str = self.scope.get_unique_variable_name(kind.lower())
        self.container.add_node(
            kind,
            list(inputs),
            out,
            op_domain="",
            op_version=_VERSIONS.get(kind, _OPSET),
            name=self.scope.get_unique_operator_name(kind),
            **attributes,
        )
        return out

    def constant(self, values: Any, kind: Any = np.float64) -> str:
        """A number or an array as a value."""
        array = np.asarray(values, dtype=kind)
        types = {
            np.float64: self.types.DOUBLE,
            np.int64: self.types.INT64,
            np.str_: self.types.STRING,
        }
        name: str = self.scope.get_unique_variable_name("constant")
        cells = array.ravel().tolist()
        cells = [c.encode() for c in cells] if kind is np.str_ else cells
        self.container.add_initializer(name, types[kind], list(array.shape), cells)
        return name

    def cast(self, value: str, kind: Any) -> str:
        return self.op("Cast", value, to=kind)

    def sum(self, value: str, axis: int) -> str:
        return self.op("ReduceSum", value, self.constant([axis], np.int64), keepdims=1)

    def name(self, value: str, out: str) -> None:
        """Call a value by the name of an output."""
        self.container.add_node(
            "Identity",
            [value],
            out,
            op_domain="",
            op_version=16,
            name=self.scope.get_unique_operator_name("Identity"),
        )


# The opset in which each operator last changed, as of _OPSET.
_VERSIONS = {
    "Abs": 13,
    "Add": 14,
    "ArgMax": 13,
    "Cast": 13,
    "Concat": 13,
    "Div": 14,
    "Exp": 13,
    "Gather": 13,
    "GreaterOrEqual": 16,
    "Identity": 16,
    "Greater": 13,
    "MatMul": 13,
    "Max": 13,
    "Min": 13,
    "Mul": 14,
    "Neg": 13,
    "Pow": 15,
    "ReduceSum": 13,
    "Reshape": 14,
    "Sigmoid": 13,
    "Softmax": 13,
    "Sqrt": 13,
    "Sub": 14,
    "Tanh": 13,
    "Unsqueeze": 13,
    "Where": 16,
}


def _kernel_values(g: _Graph, kernel: Kernel, x: str, Z: Floats) -> str:
    """k(x_i, z_j) of all rows, by ONNX's operators."""
    stack: list[str] = []
    for line in kernel.program():
        op, a, b, c = line
        if op in ("add", "mul"):
            right, left = stack.pop(), stack.pop()
            stack.append(g.op("Add" if op == "add" else "Mul", left, right))
        elif op == "scale":
            stack.append(g.op("Mul", stack.pop(), g.constant(a)))
        elif op == "pow":
            stack.append(g.op("Pow", stack.pop(), g.constant(a)))
        elif op in _ATOMS:
            stack.append(_ATOMS[op](g, x, Z, a, b, c))
        else:
            raise ValueError(f"{kernel!r} cannot be expressed in ONNX's operators.")
    return stack.pop()


def _dot(g: _Graph, x: str, Z: Floats) -> str:
    return g.op("MatMul", x, g.constant(Z.T))


def _linear(g: _Graph, x: str, Z: Floats, a: float, b: float, c: float) -> str:
    return _dot(g, x, Z)


def _polynomial(g: _Graph, x: str, Z: Floats, gamma: float, coef0: float, degree: float) -> str:
    inner = g.op("Add", g.op("Mul", _dot(g, x, Z), g.constant(gamma)), g.constant(coef0))
    return g.op("Pow", inner, g.constant(degree))


def _sigmoid(g: _Graph, x: str, Z: Floats, gamma: float, coef0: float, c: float) -> str:
    inner = g.op("Add", g.op("Mul", _dot(g, x, Z), g.constant(gamma)), g.constant(coef0))
    return g.op("Tanh", inner)


def _squares(g: _Graph, x: str, Z: Floats) -> str:
    """‖x − z‖², of rows centred so that far clusters keep their digits."""
    centre = Z.mean(axis=0) if len(Z) else np.zeros(Z.shape[1])
    x, Z = g.op("Sub", x, g.constant(centre)), Z - centre
    own = g.sum(g.op("Mul", x, x), 1)
    cross = g.op("Mul", _dot(g, x, Z), g.constant(-2.0))
    total = g.op("Add", g.op("Add", own, cross), g.constant(np.square(Z).sum(axis=1)[None]))
    return g.op("Max", total, g.constant(0.0))


def _rbf(g: _Graph, x: str, Z: Floats, gamma: float, b: float, c: float) -> str:
    return g.op("Exp", g.op("Mul", _squares(g, x, Z), g.constant(-gamma)))


def _matern(g: _Graph, x: str, Z: Floats, nu: float, length: float, c: float) -> str:
    root = {0.5: 1.0, 1.5: 3.0, 2.5: 5.0}[nu] ** 0.5
    r = g.op("Mul", g.op("Sqrt", _squares(g, x, Z)), g.constant(root / length))
    decay = g.op("Exp", g.op("Neg", r))
    if nu == 0.5:
        return decay
    factor = g.op("Add", r, g.constant(1.0))
    if nu == 2.5:
        factor = g.op("Add", factor, g.op("Div", g.op("Mul", r, r), g.constant(3.0)))
    return g.op("Mul", factor, decay)


def _pairs(g: _Graph, x: str, Z: Floats) -> tuple[str, str]:
    """Rows and z's such that operators between them are (n_rows, n_z, n_features)."""
    return g.op("Unsqueeze", x, g.constant([1], np.int64)), g.constant(Z[None])


def _laplacian(g: _Graph, x: str, Z: Floats, gamma: float, b: float, c: float) -> str:
    u, v = _pairs(g, x, Z)
    total = _without(g, g.sum(g.op("Abs", g.op("Sub", u, v)), 2), len(Z))
    return g.op("Exp", g.op("Mul", total, g.constant(-gamma)))


def _chi2(g: _Graph, x: str, Z: Floats, gamma: float, b: float, c: float) -> str:
    u, v = _pairs(g, x, Z)
    difference, total = g.op("Sub", u, v), g.op("Add", u, v)
    ratio = g.op("Div", g.op("Mul", difference, difference), g.op("Max", total, g.constant(1e-300)))
    return g.op("Exp", g.op("Mul", _without(g, g.sum(ratio, 2), len(Z)), g.constant(-gamma)))


def _intersection(g: _Graph, x: str, Z: Floats, a: float, b: float, c: float) -> str:
    u, v = _pairs(g, x, Z)
    return _without(g, g.sum(g.op("Min", u, v), 2), len(Z))


def _without(g: _Graph, value: str, width: int) -> str:
    """Drop the last axis, of length 1."""
    return g.op("Reshape", value, g.constant([-1, width], np.int64))


_ATOMS: dict[str, Callable[..., str]] = {
    "linear": _linear,
    "poly": _polynomial,
    "sigmoid": _sigmoid,
    "rbf": _rbf,
    "matern": _matern,
    "laplacian": _laplacian,
    "chi2": _chi2,
    "intersection": _intersection,
}


# ---- the machines -----------------------------------------------------------------------------


def _scores(g: _Graph, machine: Any, x: str) -> str:
    """Decision values of all problems, (n_rows, n_problems), in float64."""
    kernel = getattr(machine, "kernel_", None)
    ridge = isinstance(machine, KernelRidge | KernelRidgeCV)
    if not isinstance(kernel, Kernel) or not kernel.compiled:
        raise ValueError(f"ONNX has no operators for kernel={machine.kernel!r}.")
    rows = machine.X_fit_ if ridge else machine.support_vectors_
    Z = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
    coef = np.asarray(machine._columns(), dtype=np.float64)
    bias = np.zeros(coef.shape[1]) if ridge else np.asarray(machine.intercept_, dtype=np.float64)
    x = g.cast(x, g.types.DOUBLE)
    if isinstance(kernel, kernels.Linear):
        sums = g.op("MatMul", x, g.constant(Z.T @ coef))
    else:
        sums = g.op("MatMul", _kernel_values(g, kernel, x, Z), g.constant(coef))
    return g.op("Add", sums, g.constant(bias[None]))


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    machine, g = operator.raw_operator, _Graph(scope, container)
    sums = _scores(g, machine, operator.inputs[0].full_name)
    g.name(g.cast(sums, _kind_of(g, operator)), operator.outputs[0].full_name)


def _convert_one_class(scope: Any, operator: Any, container: Any) -> None:
    machine, g = operator.raw_operator, _Graph(scope, container)
    sums = _scores(g, machine, operator.inputs[0].full_name)
    # Support vectors on the boundary are inside; float32 rows put them off it by that much.
    edge = _SINGLE * float(np.abs(machine._columns()).sum()) * machine._largest
    inside = g.op("GreaterOrEqual", sums, g.constant(-edge))
    label = g.op("Where", inside, g.constant(1, np.int64), g.constant(-1, np.int64))
    g.name(label, operator.outputs[0].full_name)
    g.name(g.cast(sums, _kind_of(g, operator)), operator.outputs[1].full_name)


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    machine, g = operator.raw_operator, _Graph(scope, container)
    scores = _scores(g, machine, operator.inputs[0].full_name)
    if getattr(machine, "multi_class", "ovo") == "crammer_singer" and len(machine.classes_) == 2:
        scores = g.op("MatMul", scores, g.constant([[-1.0], [1.0]]))
    winner, shown = _decided(g, machine, scores)
    labels = machine.classes_
    text = labels.dtype.kind in "UO"
    names = (
        g.constant(labels.astype(str), np.str_)
        if text
        else g.constant(labels.astype(np.int64), np.int64)
    )
    g.name(g.op("Gather", names, winner, axis=0), operator.outputs[0].full_name)
    g.name(g.cast(shown, _kind_of(g, operator)), operator.outputs[1].full_name)


def _is_double(operator: Any) -> bool:
    """Whether the outputs are float64, as the input; else float32, also where that is no float."""
    types = _quiet("skl2onnx.common.data_types")
    return isinstance(operator.inputs[0].type, types.DoubleTensorType)


def _kind_of(g: _Graph, operator: Any) -> Any:
    return g.types.DOUBLE if _is_double(operator) else g.types.FLOAT


def _decided(g: _Graph, machine: Any, scores: str) -> tuple[str, str]:
    """The number of the class, and the second output: probabilities where there are, or scores."""
    classes = len(machine.classes_)
    proba = _probabilities(g, machine, scores)
    if proba is not None and not isinstance(machine, KernelLogisticRegression):
        return g.op("ArgMax", proba, axis=1, keepdims=0), proba
    if classes == 2:
        positive = g.cast(g.op("Greater", scores, g.constant(0.0)), g.types.INT64)
        winner = g.op("Reshape", positive, g.constant([-1], np.int64))
        both = g.op("Concat", g.op("Neg", scores), scores, axis=1)
        return winner, both if proba is None else proba
    if isinstance(machine, KernelLogisticRegression) or machine.multi_class != "ovo":
        winner = g.op("ArgMax", scores, axis=1, keepdims=0)
        return winner, scores if proba is None else proba
    return _voted(g, machine, scores)


def _voted(g: _Graph, machine: Any, scores: str) -> tuple[str, str]:
    """Pairs vote; a tie goes to the first class, or with break_ties to the larger confidence."""
    count = len(machine.classes_)
    pairs = list(itertools.combinations(range(count), 2))
    first, second = np.zeros((len(pairs), count)), np.zeros((len(pairs), count))
    for k, (i, j) in enumerate(pairs):
        first[k, i] = second[k, j] = 1.0
    silent = np.asarray(machine._silent())
    voting = np.where(silent, 0.0, 1.0)[:, None]

    def tally(comparison: str) -> str:
        """Count the pairs that each class wins, where the first class's score compares with 0."""
        wins = g.cast(g.op(comparison, scores, g.constant(0.0)), g.types.DOUBLE)
        lost = g.op("Sub", g.constant(1.0), wins)
        return g.op(
            "Add",
            g.op("MatMul", wins, g.constant(voting * first)),
            g.op("MatMul", lost, g.constant(voting * second)),
        )

    votes = tally("Greater")
    # scikit-learn's _ovr_decision_function gives a score of 0 to the first class.
    counted = tally("GreaterOrEqual")
    sums = g.op("MatMul", scores, g.constant(first - second))
    bounded = g.op(
        "Div", sums, g.op("Mul", g.op("Add", g.op("Abs", sums), g.constant(1.0)), g.constant(3.0))
    )
    values = g.op("Add", counted, bounded)
    chosen = values if machine.break_ties else votes
    winner = g.op("ArgMax", chosen, axis=1, keepdims=0)
    return winner, scores if machine.decision_function_shape == "ovo" else values


def _probabilities(g: _Graph, machine: Any, scores: str) -> str | None:
    count = len(machine.classes_)
    if isinstance(machine, KernelLogisticRegression):
        if count > 2:
            return g.op("Softmax", scores, axis=1)
        return g.op("Sigmoid", g.op("Concat", g.op("Neg", scores), scores, axis=1))
    if machine.probability is not True or not hasattr(machine, "probA_"):
        return None
    if count > 2 and machine.multi_class == "ovo":
        raise ValueError(
            "ONNX has no operator that couples the probabilities of pairs of classes; fit with "
            "probability=False, or take KernelLogisticRegression."
        )
    line = g.op(
        "Add",
        g.op("Mul", scores, g.constant(machine.probA_[None])),
        g.constant(machine.probB_[None]),
    )
    wins = g.op("Sigmoid", g.op("Neg", line))
    if count == 2:
        wins = g.op("Concat", g.op("Sub", g.constant(1.0), wins), wins, axis=1)
    else:
        wins = g.op("Div", wins, g.op("Max", g.sum(wins, 1), g.constant(1e-300)))
    clipped = g.op("Min", g.op("Max", wins, g.constant(LEAST)), g.constant(1 - LEAST))
    return g.op("Div", clipped, g.sum(clipped, 1))


def _convert_ranges(scope: Any, operator: Any, container: Any) -> None:
    g = _Graph(scope, container)
    slope, offset = operator.raw_operator._line()
    x = g.cast(operator.inputs[0].full_name, g.types.DOUBLE)
    scaled = g.op("Add", g.op("Mul", x, g.constant(slope[None])), g.constant(offset[None]))
    g.name(g.cast(scaled, _kind_of(g, operator)), operator.outputs[0].full_name)


# ---- shapes, registration ---------------------------------------------------------------------


def _float_of(operator: Any) -> Any:
    types = _quiet("skl2onnx.common.data_types")
    return types.DoubleTensorType if _is_double(operator) else types.FloatTensorType


def _shape_of_regressor(operator: Any) -> None:
    width = operator.raw_operator._columns().shape[1]
    operator.outputs[0].type = _float_of(operator)([None, width])


def _shape_of_one_class(operator: Any) -> None:
    types = _quiet("skl2onnx.common.data_types")
    operator.outputs[0].type = types.Int64TensorType([None, 1])
    operator.outputs[1].type = _float_of(operator)([None, 1])


def _shape_of_classifier(operator: Any) -> None:
    types = _quiet("skl2onnx.common.data_types")
    text = operator.raw_operator.classes_.dtype.kind in "UO"
    label = types.StringTensorType if text else types.Int64TensorType
    operator.outputs[0].type = label([None])
    operator.outputs[1].type = _float_of(operator)([None, None])


def _shape_of_ranges(operator: Any) -> None:
    operator.outputs[0].type = _float_of(operator)([None, operator.raw_operator.n_features_in_])


def _two_outputs(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    types = _quiet("skl2onnx.common.data_types")
    operator = scope.declare_local_operator(f"maxmargin{type(model).__name__}", model)
    operator.inputs = inputs
    text = getattr(model, "classes_", np.zeros(0)).dtype.kind in "UO"
    label = types.StringTensorType() if text else types.Int64TensorType()
    operator.outputs.append(scope.declare_local_variable("label", label))
    operator.outputs.append(scope.declare_local_variable("scores", types.FloatTensorType()))
    return operator.outputs


def register() -> None:
    """Register the converters of our estimators with skl2onnx; ``to_onnx`` does it by itself.

    Examples
    --------
    >>> register()
    """
    skl2onnx = _quiet("skl2onnx")
    add = skl2onnx.update_registered_converter
    options = {"zipmap": [False, True], "nocl": [True, False], "output_class_labels": [False, True]}
    for cls in CLASSIFIERS:
        add(
            cls,
            f"maxmargin{cls.__name__}",
            _shape_of_classifier,
            _convert_classifier,
            parser=_two_outputs,
            options=options,
        )
    for kind in REGRESSORS:
        add(kind, f"maxmargin{kind.__name__}", _shape_of_regressor, _convert_regressor)
    add(
        OneClassSVM,
        "maxmarginOneClassSVM",
        _shape_of_one_class,
        _convert_one_class,
        parser=_two_outputs,
    )
    add(Ranges, "maxmarginRanges", _shape_of_ranges, _convert_ranges)


def to_onnx(model: Any, *, double: bool = False, about: dict[str, Any] | None = None) -> Any:
    """Write a fitted machine, or a pipeline that ends in one, as an ONNX graph.

    Parameters
    ----------
    model : estimator or Pipeline
        ``SVC``, ``NuSVC``, ``SVR``, ``NuSVR``, ``OneClassSVM``, ``KernelRidge``,
        ``KernelLogisticRegression``, or a Pipeline of what skl2onnx knows before it.
    double : bool, default=False
        Whether the input X is float64; else float32, as other converters have it.
    about : dict, optional
        Kept in the file.

    Returns
    -------
    onnx.ModelProto
        With the input ``X`` of shape (n_samples, n_features) and the outputs ``label`` and
        ``scores`` (decision values, or probabilities where the model has them; of two classes one
        column each), or ``variable`` for regression.

    Examples
    --------
    >>> from maxmargin import SVR
    >>> graph = to_onnx(SVR().fit([[0.0], [1.0]], [0.0, 1.0]))
    >>> [output.name for output in graph.graph.output]
    ['variable']
    """
    skl2onnx, types = _quiet("skl2onnx"), _quiet("skl2onnx.common.data_types")
    register()
    machine = model[-1] if hasattr(model, "steps") else model
    if not isinstance(machine, (*CLASSIFIERS, *REGRESSORS, OneClassSVM)):
        known = ", ".join(c.__name__ for c in (*CLASSIFIERS, *REGRESSORS, OneClassSVM))
        raise ValueError(f"ONNX files hold a {known}; got {type(machine).__name__}.")
    texts = [step for step in getattr(model, "steps", ()) if hasattr(step[1], "transformers_")]
    if texts:
        raise ValueError(
            "an ONNX file takes one matrix of numbers; this model has columns of texts, or several "
            f"preparations side by side ({type(texts[0][1]).__name__}). Save its last step, for "
            "prepared rows."
        )
    kind = types.DoubleTensorType if double else types.FloatTensorType
    shape = kind([None, int(model.n_features_in_)])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries that skl2onnx imports
            graph = skl2onnx.convert_sklearn(
                model, initial_types=[("X", shape)], target_opset={"": _OPSET, "ai.onnx.ml": 3}
            )
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"skl2onnx cannot write this model: {error}") from error
    entry = graph.metadata_props.add()
    entry.key, entry.value = "maxmargin", json.dumps(about or {})
    return graph


class OnnxModel:
    """A model from an ONNX file, run with onnxruntime.

    Parameters
    ----------
    path : path
        Of :func:`to_onnx`, or any graph with one input of rows.

    Attributes
    ----------
    about : dict
    classes_ : ndarray
        For classifiers that :func:`to_onnx` wrote.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        runtime = _quiet("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        try:
            self._session = runtime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            said = self._session.get_modelmeta().custom_metadata_map.get("maxmargin", "{}")
            self.about: dict[str, Any] = dict(json.loads(said))
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{path} is damaged or no ONNX file: {reason}") from None
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 2:
            raise ValueError(f"{path} does not take rows of numbers: it has {len(inputs)} inputs.")
        self._input = inputs[0]
        width = self._input.shape[1]
        self.n_features_in_ = int(width) if isinstance(width, int) else None
        if "classes" in self.about:
            self.classes_ = np.array(self.about["classes"])

    def _run(self, X: Any) -> list[Any]:
        dense = X.toarray() if sp.issparse(X) else X
        kind = np.float64 if "double" in self._input.type else np.float32
        found: list[Any] = self._session.run(None, {self._input.name: np.asarray(dense, kind)})
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels or numbers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        first = np.asarray(self._run(X)[0])
        if first.dtype == object:
            first = first.astype(str)
        kind = self.about.get("label_kind")
        if kind is not None and first.dtype.kind == "i":
            first = first.astype(kind)
        return first[:, 0] if first.ndim == 2 and first.shape[1] == 1 else first

    def scores(self, X: Any) -> Floats:
        """Return the second output: decision values, or probabilities of a model that has them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_columns)
        """
        found = self._run(X)
        if len(found) < 2:
            raise ValueError("this graph has no scores beside its predictions.")
        return np.asarray(found[1], dtype=np.float64)

    def __getattr__(self, name: str) -> Any:
        # What predict_proba and decision_function are depends on the file.
        gives = self.__dict__.get("about", {}).get("scores")
        if name == "predict_proba" and gives == "probabilities":
            return self.scores
        if name == "decision_function" and gives == "decision":
            return self._decision
        raise AttributeError(f"this ONNX model has no {name}.")

    def _decision(self, X: Any) -> Floats:
        scores = self.scores(X)
        two = len(self.about.get("classes", ())) == 2
        return scores[:, 1] if two else scores[:, 0] if scores.shape[1] == 1 else scores
