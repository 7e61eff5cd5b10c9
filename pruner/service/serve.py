"""Runs the service: one process or several, until SIGTERM, and then to the end of what was begun."""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from pathlib import Path

import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from starlette.types import ASGIApp
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from pruner.config import PrunerConfig
from pruner.errors import ConfigError, PrunerError
from pruner.service.logs import configure, log
from pruner.service.protocol import Protocol
from pruner.service.settings import ServiceSettings
from pruner.variables import of_kubernetes

__all__ = ["run"]

Make = Callable[[ServiceSettings, PrunerConfig], ASGIApp]

# Longer than balancers keep a connection, lest they send a request into one that is just closed.
_KEEP_ALIVE = 75
# For reading the body of a request that was just begun, and for writing answers.
_MARGIN = 5
# A worker that is silent for so long is killed and started anew; on a busy machine it is silent while it loads.
_SILENCE = 60


def _service(settings: ServiceSettings, config: PrunerConfig) -> ASGIApp:
    from pruner.service.app import make_app

    return make_app(settings, config)


def run(settings: ServiceSettings, config: PrunerConfig, make: Make = _service) -> None:
    """Serve until SIGTERM or SIGINT; then take no new work, and return when what was begun is done.

    Args:
        settings: of the service.
        config: of the pruner.
        make: makes the app; called in each worker.

    Raises:
        ConfigError: the service cannot start so.
    """
    # Before the server listens to it, and when it is done and raises it anew; the default action would be an exit code
    # as if killed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _several(settings, config, make) if settings.workers > 1 else _one(settings, config, make)


def _one(settings: ServiceSettings, config: PrunerConfig, make: Make) -> None:
    if (folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR")) and not Path(folder).is_dir():
        raise ConfigError(f"PROMETHEUS_MULTIPROC_DIR is no folder: {folder}; make it, or unset it")
    server = uvicorn.Server(_uvicorn(_made(settings, config, make), settings, config))
    try:
        server.run()
    except SystemExit as end:
        if end.code == STARTUP_FAILURE:
            raise _unbound(settings) from None
        raise


def _several(settings: ServiceSettings, config: PrunerConfig, make: Make) -> None:
    configure(settings.log_level, content=settings.log_content)
    with _shared_metrics():
        server = _uvicorn(partial(_of_worker, settings, config, make), settings, config, factory=True)
        try:
            socket = server.bind_socket()
        except SystemExit:
            raise _unbound(settings) from None
        socket.listen(server.backlog)  # Who comes before the workers are there waits.
        workers = _Workers(server, [socket])
        workers.run()
    if any(process.exitcode == STARTUP_FAILURE for process in workers.processes):
        raise ConfigError("no worker could start; the log says why")


class _Workers(Multiprocess):
    """Notices at once when a worker ends, forgets what it was doing, and closes the port when it is told to end.

    As long as we hold its end of a pipe too, only its silence tells; as long as we hold the port, nobody is refused.
    """

    def init_processes(self) -> None:
        super().init_processes()
        self._let_go()

    def keep_subprocess_alive(self) -> None:
        before = {worker.pid for worker in self.processes}
        super().keep_subprocess_alive()
        self._let_go()  # Of those that were started anew.
        for pid in before - {worker.pid for worker in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call] # What it had in flight is no more.

    def terminate_all(self) -> None:
        for held in self.sockets:
            held.close()
        super().terminate_all()

    def _let_go(self) -> None:
        for worker in self.processes:
            worker.child_conn.close()


def _of_worker(settings: ServiceSettings, config: PrunerConfig, make: Make) -> ASGIApp:
    """Make the app of a worker; ends a worker that cannot start so that it is not started anew for ever."""
    try:
        return _made(settings, config, make)
    except PrunerError as error:
        sys.stderr.write(f"pruner: {error}\n")
        sys.exit(STARTUP_FAILURE)


def _made(settings: ServiceSettings, config: PrunerConfig, make: Make) -> ASGIApp:
    app = make(settings, config)
    configure(settings.log_level, content=settings.log_content)
    if theirs := of_kubernetes():
        log.info("these variables are of a Service of Kubernetes, and no settings: %s", ", ".join(theirs))
    # What stays for good need not be gone over: that stops every request for 100 ms, every few seconds under load.
    gc.collect()
    gc.freeze()
    return app


def _uvicorn(app: object, settings: ServiceSettings, config: PrunerConfig, *, factory: bool = False) -> uvicorn.Config:
    longest = config.timeout + (settings.upstream_timeout if settings.upstream else 0) + _MARGIN
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        factory=factory,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=Protocol,  # Of h11: the faster one puts no bound on the headers it keeps.
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=ceil(longest),
        timeout_worker_healthcheck=_SILENCE,
    )


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """Have the workers count in files, so that any of them can tell Prometheus about all."""
    with _own_folder() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["PROMETHEUS_MULTIPROC_DIR"]


def _own_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="pruner-metrics-")
    except OSError as error:
        advice = "set TMPDIR to a folder that can be written (in Kubernetes: an emptyDir), or workers to 1"
        raise ConfigError(f"several workers need a folder for temporary files: {error.strerror}; {advice}") from None


def _unbound(settings: ServiceSettings) -> ConfigError:
    return ConfigError(f"cannot listen on {settings.host}:{settings.port}; the log says why")
