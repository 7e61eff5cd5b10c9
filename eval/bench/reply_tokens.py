"""How many output tokens a grade costs, by reply format: `python eval/bench/reply_tokens.py`.

The replies are written as the prompt asks for them, without blanks, with random grades. Counted by o200k where its
table is on this machine (litellm's wheel brings it), else by whichever table is, and by the embedded model's own
tokenizer where the model is.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import mean

import httpx2
from tqdm import tqdm

from pruner.backends.modelstore import DEFAULT_MODEL, model_path
from pruner.errors import ConfigError
from pruner.tokens import TokenCounter

FORMATS: dict[str, Callable[[list[int]], object]] = {
    "pairs": lambda grades: {"grades": [[label, grade] for label, grade in enumerate(grades, 1)]},
    "listed": lambda grades: {"grades": [{"id": label, "grade": grade} for label, grade in enumerate(grades, 1)]},
    "keyed": lambda grades: {str(label): grade for label, grade in enumerate(grades, 1)},
}
SIZES = (5, 15, 25)

Count = Callable[[str], int]


def table() -> tuple[str, Count]:
    """Return the best of tiktoken's tables that is here."""
    if litellm := find_spec("litellm"):
        folder = Path(str(litellm.origin)).parent / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))
    counter = TokenCounter()
    return counter.name.removesuffix("_base").removesuffix("_base_offline"), counter.count


@contextmanager
def embedded(model: Path) -> Iterator[Count]:
    """Start the embedded model, and count by it."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx, params.n_parallel, params.port, params.verbosity = 512, 1, 0, -1
    params.hostnames = ["127.0.0.1"]
    server = xllamacpp.Server(params)
    with httpx2.Client(base_url=server.listening_address, timeout=60, trust_env=False) as client:
        yield lambda text: len(client.post("/tokenize", json={"content": text}).raise_for_status().json()["tokens"])


def counters(stack: ExitStack) -> dict[str, Count]:
    """Return what can count on this machine, by name."""
    found = dict([table()])
    try:
        found["Qwen2.5"] = stack.enter_context(embedded(model_path(DEFAULT_MODEL)))
    except (ConfigError, ImportError) as error:
        sys.stderr.write(f"without the embedded model: {error}\n")
    return found


def replies(form: str, n: int, samples: int) -> list[str]:
    """Write some replies about n chunks."""
    rng = random.Random(n)
    graded = [[rng.randint(1, 5) for _ in range(n)] for _ in range(samples)]
    return [json.dumps(FORMATS[form](grades), separators=(",", ":")) for grades in graded]


def measure(samples: int) -> None:
    """Print tokens per chunk, and their ratio to those of `pairs`."""
    with ExitStack() as stack:
        counting = counters(stack)
        rows = [(name, form, n) for name in counting for form in FORMATS for n in SIZES]
        found = {
            (name, form, n): mean(map(counting[name], replies(form, n, samples))) / n
            for name, form, n in tqdm(rows, unit="cell", disable=None)
        }
    sys.stdout.write(f"{'tokens per chunk':<20}" + "".join(f"{f'n={n}':>8}" for n in SIZES) + f"{'ratio':>8}\n")
    for name in counting:
        for form in FORMATS:
            cells = [found[name, form, n] for n in SIZES]
            ratio = cells[-1] / found[name, "pairs", SIZES[-1]]
            sys.stdout.write(f"{name:<10}{form:<10}" + "".join(f"{c:>8.2f}" for c in cells) + f"{ratio:>8.2f}\n")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20, help="replies per cell")
    measure(parser.parse_args().samples)


if __name__ == "__main__":
    main()
