"""How long `import pruner` takes, beside the interpreter's own start: `python eval/bench/import_time.py`."""

import subprocess
import sys


def _best_of(code: str, runs: int = 9) -> float:
    return min(_seconds(code) for _ in range(runs))


def _seconds(code: str) -> float:
    report = f"{code}\nimport time; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", report], check=True, capture_output=True).stdout)


def main() -> None:
    """Print processor seconds; the best of nine runs, each in a new process."""
    bare, pruner = _best_of("pass"), _best_of("import pruner")
    sys.stdout.write(f"import pruner: {pruner - bare:.2f} s (an empty program: {bare:.2f} s)\n")


if __name__ == "__main__":
    main()
