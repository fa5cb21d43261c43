"""Pictures in scikit-learn's Display style: matplotlib's only home.

A display is made in two halves: a ``from_...`` constructor computes plain arrays and stores them,
``plot`` draws them and keeps every artist in an attribute that ends in ``_``. Importing this
package imports neither matplotlib nor scikit-learn: a display is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxmargin.displays._style import OKABE_ITO, OKABE_ITO_ON_DARK

if TYPE_CHECKING:
    from maxmargin.displays.convergence import ConvergenceDisplay
    from maxmargin.displays.gram import GramDisplay
    from maxmargin.displays.ledger import LedgerDisplay
    from maxmargin.displays.loss import LossDisplay
    from maxmargin.displays.margin import MarginDisplay
    from maxmargin.displays.path import PathDisplay
    from maxmargin.displays.plot import plot_model
    from maxmargin.displays.search import SearchDisplay
    from maxmargin.displays.tube import RegressionTubeDisplay

__all__ = [
    "OKABE_ITO",
    "OKABE_ITO_ON_DARK",
    "ConvergenceDisplay",
    "GramDisplay",
    "LedgerDisplay",
    "LossDisplay",
    "MarginDisplay",
    "PathDisplay",
    "RegressionTubeDisplay",
    "SearchDisplay",
    "plot_model",
]

_HOMES = {
    "ConvergenceDisplay": "convergence",
    "GramDisplay": "gram",
    "LedgerDisplay": "ledger",
    "LossDisplay": "loss",
    "MarginDisplay": "margin",
    "PathDisplay": "path",
    "RegressionTubeDisplay": "tube",
    "SearchDisplay": "search",
    "plot_model": "plot",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'maxmargin.displays' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
