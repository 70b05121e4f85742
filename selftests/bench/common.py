# SPDX-License-Identifier: MIT
"""What the scripts of this folder share: the model, the programs, a table."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TEXT = os.path.join(TOP, "selftests/data/refs/prompt-long.txt")


def parser(doc):
    """Options of every script."""
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", help="default what tools/setup/model.sh "
                   "says")
    p.add_argument("--build", default=os.environ.get(
        "KVCACHE_BUILD", os.path.join(TOP, "build")),
        help="where kvcache-run and kvcache-bench are")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--json", action="store_true")
    p.add_argument("--check", action="store_true",
                   help="exit 1 if what is claimed does not hold")
    return p


def find_model(args):
    if not args.model:
        args.model = subprocess.run(
            [os.path.join(TOP, "tools/setup/model.sh")], check=True,
            stdout=subprocess.PIPE, text=True).stdout.strip()


def program(args, name, *words, stdin=None):
    """The JSON that a program prints."""
    command = [os.path.join(args.build, name), *words]
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE,
                          text=True, timeout=1800, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}")
    return json.loads(done.stdout)


def run(args, *words, stdin=None):
    """kvcache-run --json, its counters checked."""
    out = program(args, "kvcache-run", "-m", args.model, "--json",
                  "--ignore-end", *words, stdin=stdin)
    if not out["totals"]["counters_ok"]:
        sys.exit("a position was computed or stored twice, or not at all")
    return out


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def quantile(values, q):
    values = sorted(values)
    return values[round(q * (len(values) - 1))]


def median(values):
    return statistics.median(values)


def plot(path, script):
    """An SVG by gnuplot, or a line that says that there is none."""
    if not shutil.which("gnuplot"):
        print(f"SKIP {path}: gnuplot is not installed", file=sys.stderr)
        return
    subprocess.run(
        ["gnuplot"], text=True, check=True,
        input="set terminal svg size 720,480 background 'white'\n"
        f"set output '{path}'\nset grid\n{script}\n")
