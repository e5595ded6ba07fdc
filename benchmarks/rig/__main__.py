"""The command line: python -m benchmarks.rig --data PATH [conditions] -- COMMAND…"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.rig.conditions import REFUSED, Conditions, Refused
from benchmarks.rig.run import run_under

OUT_OF_TIME = 124


def make_parser() -> argparse.ArgumentParser:
    """The options of the rig; the command follows `--`."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rig",
        description="Run a command where storage is expensive. Exits as it does; 77: refused; 124: out of time.",
    )
    parser.add_argument("--data", action="append", required=True, metavar="PATH", help="file or folder of the dataset")
    parser.add_argument("--cold", nargs="?", const="files", default=False, choices=["files", "machine"],
                        help="drop the data's pages first; --cold=machine: all caches of the machine")  # fmt: skip
    parser.add_argument("--memory", help="limit of memory, page cache included: 28%% of the data, 800MiB")
    parser.add_argument("--iops", type=int, help="reads a second from the disk of the data")
    parser.add_argument("--bandwidth", help="bytes a second from it: 150MB")
    parser.add_argument("--timeout", type=float, help="seconds after which the command is killed")
    parser.add_argument("--shim", action="store_true", help="a latency model instead of the kernel's limits; no rights")
    parser.add_argument("--json", action="store_true", help="print the result, with the command's output, as JSON")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and report; the exit code."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command: it follows --")
    streams = {} if args.json else {"stdin": None, "stdout": None, "stderr": None}
    try:
        conditions = Conditions(cold=args.cold, memory=args.memory, iops=args.iops, bandwidth=args.bandwidth)
        result = run_under(conditions, command, data=args.data, timeout=args.timeout, shim=args.shim, **streams)
    except ValueError as error:
        parser.error(str(error))
    except FileNotFoundError as error:
        print(f"rig: {error.filename}: no such command", file=sys.stderr)
        return 127
    except Refused as error:
        print(f"rig: refused: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return 130
    if args.json:
        print(json.dumps(result.as_json(), indent=2))
    else:
        print(*(f"rig: {line}" for line in (*result.saw, result.summary())), sep="\n", file=sys.stderr)
    if result.timed_out:
        return OUT_OF_TIME
    return result.returncode if result.returncode >= 0 else 128 - result.returncode


if __name__ == "__main__":
    sys.exit(main())
