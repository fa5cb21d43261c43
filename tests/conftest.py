import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")  # before anything imports matplotlib

# No test depends on a clock, hence no deadline. CI draws the same examples every time.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")

collect_ignore = ["typed_user.py"]  # read by mypy, never run


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of reference data beside the repository; tests that ask for it may skip."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        pytest.skip("no ../shared directory beside the repository")
    return path
