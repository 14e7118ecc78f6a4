"""scripts/chaos: seeds, one after the other, and what came of them."""
import argparse
import ctypes
import json
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from arena import Arena, run_seed  # noqa: E402
from breakers import BreakerArena  # noqa: E402
from cluster import ROOT, Cluster, end_by_signals  # noqa: E402
from orders import OrderArena  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
ARENAS = {"chaos": Arena, "orders": OrderArena, "breakers": BreakerArena}


def seeds(options):
    """The numbers to run, as long as there is time."""
    until = time.monotonic() + options.minutes * 60 if options.minutes else None
    seed = options.seed if options.seed is not None else 1
    last = seed if options.seed is not None and not options.minutes and not options.count else seed + (options.count or 200) - 1
    while (until is None and seed <= last) or (until is not None and time.monotonic() < until):
        yield seed
        seed += 1


def main():
    parser = argparse.ArgumentParser(prog="scripts/chaos", add_help=False)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--count", type=int)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--orders", dest="what", action="store_const", const="orders", default="chaos")
    parser.add_argument("--breakers", dest="what", action="store_const", const="breakers")
    options = parser.parse_args()
    if not (options.all or options.minutes or options.count or options.seed is not None):
        parser.error("say --seed N, --minutes M or --all; see --help")
    end_by_signals()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = ROOT / ".pgrab" / options.what
    cluster = Cluster(stoppable=True)
    sums, bad = {}, []
    try:
        for seed in seeds(options):
            faults, counts = run_seed(cluster, seed, folder, ARENAS[options.what])
            for key, value in counts.items():
                sums[key] = round(sums.get(key, 0) + value, 1)
            print(f"seed {seed}: {'ok' if not faults else 'VIOLATED'}  " + "  ".join(f"{k} {v}" for k, v in counts.items()), flush=True)
            for fault in faults:
                print(f"  {fault}", flush=True)
            if faults:
                bad.append(seed)
                print(f"  everything about it: {folder}/seed-{seed}", flush=True)
                if options.stop:
                    break
            else:
                shutil.rmtree(folder / f"seed-{seed}", ignore_errors=True)
            sums["seeds"] = sums.get("seeds", 0) + 1
    finally:
        cluster.close()
    print(json.dumps({**sums, "violated": bad}))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
