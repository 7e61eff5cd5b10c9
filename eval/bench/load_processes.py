"""The processes of a load run: started, waited for, ended; what processor time and memory they use."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

__all__ = ["Memory", "free_port", "processor_seconds", "provider_command", "running", "service_command", "wait_for"]


@contextmanager
def running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process for as long as it is needed."""
    env = {**os.environ, **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)


def provider_command(faults: float) -> list[str]:
    """The command that is the provider; it writes its port."""
    return [sys.executable, "-m", "eval.bench.load_provider", "--faults", str(faults)]


def service_command(provider: str, port: int, workers: int) -> list[str]:
    """The command that serves."""
    dials = ["--model", "openai:m", "--base-url", provider, "--timeout", "5"]
    return [sys.executable, "-m", "pruner.cli", "serve", "--port", str(port), "--workers", str(workers), *dials]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until something listens."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the service did not start")


def processor_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the processor time that each has used so far, its workers' too."""
    return {name: sum(map(_seconds, _family(pid))) for name, pid in pids.items()}


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    # This very process has started all others.
    return [process] if pid == os.getpid() else [process, *process.children(recursive=True)]


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


class Memory:
    """What a process and its workers hold, read again and again.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._readings = pid, list[float]()

    async def watch(self, every: float) -> None:
        """Read until cancelled, every so many seconds."""
        while True:
            self._readings.append(sum(process.memory_info().rss for process in _family(self._pid)) / 1e6)
            await asyncio.sleep(every)

    def quarters(self) -> tuple[float, float]:
        """Return the most MB in the first and in the last quarter."""
        quarter = max(len(self._readings) // 4, 1)
        return max(self._readings[:quarter]), max(self._readings[-quarter:])
