"""scripts/bench: the command line of the benchmarks."""
import argparse
import os
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "system"))  # its cluster.py starts servers here too

import compare  # noqa: E402  (the path is set above)
import drain  # noqa: E402
import latency  # noqa: E402
import many  # noqa: E402
import nodes  # noqa: E402
import serve  # noqa: E402
import size  # noqa: E402
import stage  # noqa: E402
import statements  # noqa: E402
import table  # noqa: E402
import versions  # noqa: E402
import worst  # noqa: E402
from cluster import end_by_signals  # noqa: E402
from process import Failed  # noqa: E402
from report import Progress  # noqa: E402

BENCHMARKS = {"compare": compare, "drain": drain, "latency": latency, "many": many, "nodes": nodes, "serve": serve, "size": size,
              "statements": statements, "table": table, "versions": versions, "worst": worst}
ON_A_STAGE = (drain, latency, serve, size, worst)  # the others set up their own


def natural(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def add_common_options(command, module):
    command.add_argument("--node-option", action="append", default=[], metavar="FLAG=VALUE",
                         help="one more flag for `pgrab run`, e.g. workers=16; may be repeated")
    command.add_argument("--bin", metavar="PROGRAM", default=os.environ.get("PGRAB_BIN"),
                         help="measure this pgrab instead of building one (also: PGRAB_BIN)")
    if module not in (statements, versions):  # which have two
        command.add_argument("--postgres", choices=("15", "16", "17", "18"), metavar="MAJOR",
                             help="on a server of this version from scripts/pg-versions (default: Debian's)")
    if module in ON_A_STAGE:
        command.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    else:
        command.add_argument("--json", metavar="FILE", help="all figures of all rounds as well, in this file")
        command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                             help="one more setting of the server, for all alike; may be repeated")


def parse(argv):
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures pgrab on a private, durable PostgreSQL.")
    commands = parser.add_subparsers(dest="what", required=True, metavar="|".join(BENCHMARKS))
    for name, module in BENCHMARKS.items():
        command = commands.add_parser(name, help=module.__doc__.split("\n")[0], description=module.__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_options(command, natural)
        if module is not table:
            add_common_options(command, module)
    return parser.parse_args(argv)


def main(argv):
    args = parse(argv)
    end_by_signals()
    progress = Progress()
    benchmark = BENCHMARKS[args.what]
    try:
        if isinstance(getattr(args, "postgres", None), str):
            os.environ["PGRAB_PG_BIN"] = versions.server_folder(args.postgres)
        if benchmark not in ON_A_STAGE:
            return benchmark.run(args, progress)
        with stage.Stage(args, progress) as st:
            return benchmark.run(st, args, progress)
    except KeyboardInterrupt:
        progress.end()
        print("bench: interrupted", file=sys.stderr)
        return 130
    except (Failed, AssertionError) as e:
        progress.end()
        print(f"bench: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
