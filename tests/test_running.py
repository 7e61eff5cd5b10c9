"""`prune_sync`: threads, interrupts, forks, and connections that live on."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import NoReturn

import pytest

from pruner import Pruner, PrunerConfig
from pruner.running import run_sync
from tests.provider import HANG, Reply, chat, serve

CHUNKS = ["a", "b", "c", "d"]
REPLY = chat('{"grades":[[1,1],[2,1],[3,5],[4,1]]}')
name: ContextVar[str] = ContextVar("name")


async def thread() -> threading.Thread:
    return threading.current_thread()


def in_a_new_thread() -> threading.Thread:
    """Make a call in a new thread, and return the one that it ran in."""
    found: list[threading.Thread] = []
    caller = threading.Thread(target=lambda: found.append(run_sync(thread)))
    caller.start()
    caller.join(10)
    return found[0]


def python(code: str, url: str) -> "subprocess.Popen[str]":
    said = subprocess.PIPE
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code, url]
    root = Path(__file__).parents[1]
    return subprocess.Popen(command, stdout=said, stderr=said, text=True, env={**os.environ, "PYTHONPATH": str(root)})


def test_calls_one_after_the_other_share_a_connection() -> None:
    with serve(REPLY) as provider:
        pruner = Pruner(PrunerConfig(base_url=provider.url))
        assert [pruner.prune_sync("q", CHUNKS).status for _ in range(5)] == ["ok"] * 5
        assert provider.connections == 1


async def inside() -> list[threading.Thread]:
    return [run_sync(thread) for _ in range(2)]


def test_each_thread_has_a_loop_of_its_own_that_it_keeps() -> None:
    mine = [run_sync(thread), run_sync(thread), *asyncio.run(inside())]
    assert len(set(mine)) == 1
    assert in_a_new_thread() not in mine


def test_the_loop_ends_with_the_thread_that_it_worked_for() -> None:
    ended = in_a_new_thread()
    gc.collect()
    ended.join(10)
    assert not ended.is_alive()


def test_a_call_within_a_call_does_not_wait_for_itself() -> None:
    async def outer() -> tuple[threading.Thread, threading.Thread]:
        return await thread(), run_sync(thread)

    first, second = run_sync(outer)
    assert first is not second


def test_the_callers_context_is_seen() -> None:
    async def read() -> str:
        return name.get()

    name.set("mine")
    assert run_sync(read) == "mine"


@pytest.mark.parametrize("error", [ValueError, TimeoutError, KeyboardInterrupt, SystemExit])
def test_what_is_raised_reaches_the_caller_and_the_next_call_runs(error: type[BaseException]) -> None:
    async def fail() -> NoReturn:
        raise error

    with pytest.raises(error):
        run_sync(fail)
    assert run_sync(thread).is_alive()


CALL = """
import asyncio, sys
from pruner import Pruner, PrunerConfig
pruner = Pruner(PrunerConfig(base_url=sys.argv[1], timeout=60, keep_top_k=0))
def ask():
    return pruner.prune_sync("q", ["a", "b", "c", "d"]).status
async def inside():
    return ask()
"""
INTERRUPTED = """
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""


# A notebook's loop, unlike that of `asyncio.run()`, has no handler of interrupts.
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "call", ["ask()", "asyncio.run(inside())", "asyncio.new_event_loop().run_until_complete(inside())"]
)
def test_an_interrupt_ends_the_call_at_once(call: str) -> None:
    with serve(HANG) as provider:
        child = python(CALL + INTERRUPTED.format(call=call), provider.url)
        assert provider.asked.wait(30)
        child.send_signal(signal.SIGINT)
        assert provider.hung_up.wait(10)
        assert child.communicate(timeout=10)[0] == "interrupted\n"


def test_a_process_ends_without_a_word_of_what_it_kept_open() -> None:
    with serve(REPLY) as provider:
        child = python(CALL + "print(ask(), ask())", provider.url)
        assert child.communicate(timeout=60) == ("ok ok\n", "")
    assert (child.returncode, provider.connections) == (0, 1)


THREADS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
kept = ThreadPoolExecutor(4)
print(*kept.map(lambda _: ask(), range(4)))
for short in [Thread(target=ask) for _ in range(4)]:
    short.start()
    short.join()
"""


def test_a_process_ends_without_a_word_of_its_threads() -> None:
    with serve(REPLY) as provider:
        child = python(CALL + THREADS, provider.url)
        assert child.communicate(timeout=60) == ("ok ok ok ok\n", "")


PATCHED = """
from gevent import monkey
monkey.patch_all({options})
"""
GREENLETS = """
import gevent
asked = [gevent.spawn(ask) for _ in range(4)]
gevent.joinall(asked, timeout=30)
print(*[each.value for each in asked], ask(), gevent.spawn(asyncio.run, inside()).get(timeout=30))
"""


AS_IT_WAS = "import warnings\nwarnings.simplefilter('ignore')\n"


@pytest.mark.parametrize("code", [PATCHED + CALL, AS_IT_WAS + CALL + PATCHED], ids=["before", "after"])
def test_greenlets_of_gevent_call_at_once_whether_it_came_before_our_import_or_after(code: str) -> None:
    with serve(REPLY) as provider:
        child = python(code.format(options="") + GREENLETS, provider.url)
        assert child.communicate(timeout=60)[0] == "ok ok ok ok ok ok\n"


@pytest.mark.parametrize("options", ["thread=False", "select=False"])
def test_where_gevent_has_replaced_one_half_only_a_call_is_refused_in_one_line(options: str) -> None:
    child = python(PATCHED.format(options=options) + CALL + "ask()", "http://127.0.0.1:9")
    assert child.communicate(timeout=60)[1].endswith("threads and selectors patched: monkey.patch_all()\n")


BESIDE = """
import gevent
from contextvars import ContextVar
from pruner.running import run_sync
name = ContextVar("name")
async def fail():
    raise KeyError(name.get())
def caught():
    name.set("mine")
    try:
        run_sync(fail)
    except KeyError as error:
        return error
beats = []
def beat():
    while True:
        beats.append(1)
        gevent.sleep(0.01)
gevent.spawn(beat)
print(repr(gevent.spawn(caught).get(timeout=30)), ask(), len(beats) > 2)
"""


def test_a_greenlet_gets_what_is_raised_and_others_go_on_while_it_waits() -> None:
    def slow(body: object) -> Reply:
        threading.Event().wait(0.2)
        return REPLY

    with serve(slow) as provider:
        child = python(PATCHED.format(options="") + CALL + BESIDE, provider.url)
        assert child.communicate(timeout=60)[0] == "KeyError('mine') ok True\n"


FORK = """
import os
print(ask(), flush=True)
child = os.fork()
if not child:
    print(ask(), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
print(ask())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_a_loop_and_connections_of_its_own() -> None:
    with serve(REPLY) as provider:
        child = python("import warnings\n" + CALL + "warnings.simplefilter('ignore')" + FORK, provider.url)
        assert child.communicate(timeout=60) == ("ok\nok\nok\n", "")
    assert (child.returncode, provider.connections) == (0, 2)
