"""scripts/bench: the command line of the benchmarks."""
import argparse
import os
import signal
import sys

import drain
import latency
import stage
from report import Progress

BENCHMARKS = {"drain": drain, "latency": latency}


def natural(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def parse(argv):
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures pgrab on a private, durable PostgreSQL.")
    commands = parser.add_subparsers(dest="what", required=True, metavar="drain|latency")
    for name, module in BENCHMARKS.items():
        command = commands.add_parser(name, help=module.__doc__.split("\n")[0], description=module.__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_options(command, natural)
        command.add_argument("--node-option", action="append", default=[], metavar="FLAG=VALUE",
                             help="one more flag for `pgrab run`, e.g. workers=16; may be repeated")
        command.add_argument("--bin", metavar="PROGRAM", default=os.environ.get("PGRAB_BIN"),
                             help="measure this pgrab instead of building one (also: PGRAB_BIN)")
        command.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    return parser.parse_args(argv)


def interrupted(signum, frame):
    raise KeyboardInterrupt


def main(argv):
    args = parse(argv)
    signal.signal(signal.SIGTERM, interrupted)  # so that it cleans up as after a Ctrl-C
    progress = Progress()
    try:
        with stage.Stage(args, progress) as st:
            return BENCHMARKS[args.what].run(st, args, progress)
    except KeyboardInterrupt:
        progress.end()
        print("bench: interrupted", file=sys.stderr)
        return 130
    except (stage.Failed, AssertionError) as e:
        progress.end()
        print(f"bench: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
