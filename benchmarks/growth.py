"""Time and memory at growing n: `make bench-growth`; QUICK=1 stops at n = 2000."""

from datasets import growth
from report import write_growth
from side_by_side import Settings, run

if __name__ == "__main__":
    settings = Settings.from_environment()
    print(write_growth(run("growth", growth(quick=settings.quick), settings)))
