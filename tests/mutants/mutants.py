"""scripts/mutants: takes one guard out at a time, builds that, and sees which check notices."""
import argparse
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TREE = ROOT / ".pgrab" / "mutants"


class Mutant:
    """One file of this folder: what the guard is, what takes it out, which checks should notice."""

    def __init__(self, path):
        lines = path.read_text(encoding="utf-8").splitlines()
        self.name = path.name
        self.what = lines[0].lstrip("# ")
        self.edits, self.checks, self.before = [], [], {}
        for line in lines[1:]:
            word, _, rest = line.partition(": ")
            if word in ("file", "also"):
                self.edits.append([rest, None])
            elif word == "sed":
                self.edits[-1][1] = rest
            elif word == "check":
                self.checks.append(rest)

    def apply(self):
        """Into the copy of the tree; a guard that is not where it was is a fault of this file."""
        for name, script in self.edits:
            path = TREE / name
            before = self.before[path] = path.read_text(encoding="utf-8")
            subprocess.run(["sed", "-i", script, path], check=True)
            if path.read_text(encoding="utf-8") == before:
                raise SystemExit(f"{self.name}: sed has changed nothing in {name}; the guard has moved")

    def undo(self):
        for path, text in self.before.items():
            path.write_text(text, encoding="utf-8")


def run(log, *command):
    done = subprocess.run(command, cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    log.write(f"$ {' '.join(command)}\n{done.stdout}\n")
    log.flush()
    return done


def notices(log, check):
    """What a check says against the mutant, or None; it has to have run at all."""
    words = shlex.split(check)
    if words[0] == "chaos":
        done = run(log, "scripts/chaos", "--stop", *words[1:])
        found = re.findall(r"^  ((?:[IL]\d+|limit) .*)$", done.stdout, re.M)
        return found[0] if found else None
    done = run(log, "scripts/test", *words)
    count = re.findall(r"^(\d+) passed, (\d+) failed", done.stdout, re.M)
    if not count or int(count[-1][0]) + int(count[-1][1]) == 0:
        raise SystemExit(f"{check}: it did not run; see {log.name}")
    failed = re.findall(r"^failed: (.*)$", done.stdout, re.M)
    return failed[0] if failed else None


def copy_tree():
    TREE.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, files.split("\0")):
        source, target = ROOT / name, TREE / name
        if source.is_file() and (not target.exists() or source.read_bytes() != target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def main():
    parser = argparse.ArgumentParser(prog="scripts/mutants", add_help=False)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    paths = [HERE / n for n in options.names] or sorted(p for p in HERE.iterdir() if p.suffix == "")
    mutants = [Mutant(p) for p in paths if p.is_file()]
    copy_tree()
    alive = []
    print("| guard that was taken out | noticed by |\n|---|---|", flush=True)
    with open(TREE / "mutants.log", "a", encoding="utf-8") as log:
        for mutant in mutants:
            begun = time.monotonic()
            mutant.apply()
            try:
                if run(log, "scripts/build").returncode != 0:
                    raise SystemExit(f"{mutant.name} does not build; see {log.name}")
                said = next(((c, s) for c in mutant.checks for s in [notices(log, c)] if s), None)
            finally:
                mutant.undo()
            if said is None:
                alive.append(mutant.name)
            verdict = f"`{said[0]}`: {said[1][:110]}" if said else "**nobody**"
            print(f"| `{mutant.name}`: {mutant.what} | {verdict} |", flush=True)
            print(f"{mutant.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    print(f"{len(mutants) - len(alive)} of {len(mutants)} noticed" + (f"; alive: {', '.join(alive)}" if alive else ""))
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
