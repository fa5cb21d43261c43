"""All solvers side by side: `make bench`, or `make bench QUICK=1` on generated data alone."""

from datasets import SHARED, workloads
from report import write_bench
from side_by_side import Settings, run, say

if __name__ == "__main__":
    settings = Settings.from_environment()
    if not settings.quick and not SHARED.exists():
        say(f"no real data: {SHARED} is not there")
    print(write_bench(run("bench", workloads(quick=settings.quick), settings)))
