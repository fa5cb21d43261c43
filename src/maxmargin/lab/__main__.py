"""``python -m maxmargin.lab``: the lab without the command line tool."""

import argparse
import sys


def main() -> int:
    """Serve the lab; the exit status is 1 where that is not possible."""
    parser = argparse.ArgumentParser(
        prog="python -m maxmargin.lab",
        description="Serve the lab on this machine and open it in the browser; Ctrl-C ends it.",
    )
    parser.add_argument("--port", type=int, default=8765, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    given = parser.parse_args()
    try:
        from maxmargin.lab import serve  # which says what to install

        serve(port=given.port, open_browser=not given.no_browser)
    except (ImportError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
