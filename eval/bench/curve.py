"""What `python -m eval curve` takes over 1,000 recorded lists, from reading the files to the last picture.

Lists are of 15 to 25 chunks of about 150 tokens, made up by a seed; their gradings are, too. The command runs in a
process of its own, as people run it.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from eval.datasets import Row, read_rows
from eval.graders import make_record
from eval.records import LISTWISE, Setup, to_line
from pruner.schema import Status, Usage
from pruner.tokens import TokenCounter

SETUP = Setup(LISTWISE, "openai:gpt-4o-mini", "grade.v1", "0" * 64, "json", "pairs", "reranker")
WORDS = [f"word{i}" for i in range(900)]
LEVELS = [1, 1, 1, 1, 2, 2, 3, 4, 5]


def entries(count: int, dice: random.Random) -> Iterator[str]:
    """Yield made-up labelled lists, as lines."""
    for i in range(count):
        n = dice.randint(15, 25)
        chunks = [
            {"id": f"c{place}", "text": " ".join(dice.choices(WORDS, k=75)), "score": round(30 * 0.93**place, 3)}
            for place in range(n)
        ]
        gold = [f"c{place}" for place in dice.sample(range(n), dice.randint(1, 3))]
        row = {
            "id": f"q{i}",
            "dataset": "made",
            "query": "what?",
            "chunks": chunks,
            "gold": gold,
            "answer": WORDS[i % 900],
        }
        yield json.dumps({**row, "meta": {"hops": len(gold)}}) + "\n"


def graded(row: Row, counter: TokenCounter, dice: random.Random) -> str:
    """Return a made-up record of a list, as a line."""
    grades = [
        5 if place in row.needed and dice.random() < 0.9 else dice.choice(LEVELS) for place in range(len(row.chunks))
    ]
    expected = [min(5.0, max(1.0, grade + dice.uniform(-0.5, 0.5))) for grade in grades]
    usage = Usage(input_tokens=4_000, output_tokens=120, calls=1, cost=0.0007)
    return to_line(
        make_record(
            row,
            SETUP,
            counter,
            status=Status.OK,
            reason=None,
            usage=usage,
            latency=0.8,
            grades=grades,
            expected=expected,
        )
    )


def main() -> None:
    """Make the files, run the command, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lists", type=int, default=1_000)
    options = parser.parse_args()
    dice, counter = random.Random(2026), TokenCounter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, records = folder / "lists.jsonl", folder / "records.jsonl"
        data.write_text("".join(entries(options.lists, dice)), encoding="utf-8")
        records.write_text("".join(graded(row, counter, dice) for row in read_rows(data)), encoding="utf-8")
        command = ["curve", str(data), "--records", str(records), "--out", str(folder / "curve")]
        started = time.monotonic()
        subprocess.run([sys.executable, "-m", "eval", *command], check=True, stdout=subprocess.DEVNULL)
        wall = time.monotonic() - started
        lines = (folder / "curve" / "curve.csv").read_text(encoding="utf-8").splitlines()
        configurations = sum(line.startswith("all,") for line in lines)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    sys.stdout.write(
        f"{options.lists} lists, {configurations} configurations and their slices: {wall:.1f} s, "
        f"{used.ru_utime + used.ru_stime:.1f} s of processor time, {used.ru_maxrss / 1024:.0f} MB at most, "
        f"on {os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f}\n"
    )


if __name__ == "__main__":
    main()
