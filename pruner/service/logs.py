"""JSON logs, one object a line, each with the id of its request and none with text of query or chunks."""

import json
import logging
import logging.config
import re
import time
import traceback
import uuid
from contextvars import ContextVar
from types import TracebackType
from typing import Any

__all__ = ["JsonFormatter", "configure", "log", "new_request_id", "request_id"]

request_id: ContextVar[str] = ContextVar("request_id", default="-")
log = logging.getLogger("pruner.service")

# At a lower level, some of these write whole requests.
_VENDORS = ("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2", "litellm", "LiteLLM", "asyncio", "mcp")


def new_request_id(given: str) -> str:
    """Return the caller's own id, where it is one that may stand in a header and a log, else a new one."""
    return given if re.fullmatch(r"[\w.:/+=@-]{1,128}", given, re.ASCII) else uuid.uuid4().hex


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object.

    Args:
        content: whether an exception's own words may be written; they can quote what was sent.
    """

    def __init__(self, *, content: bool = False) -> None:
        super().__init__()
        self._content = content

    def format(self, record: logging.LogRecord) -> str:
        """Write the record."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0]:
            line |= self._fault(*record.exc_info)
        return json.dumps(line, default=str)

    def _fault(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> dict[str, Any]:
        frames = traceback.extract_tb(trace)
        fault: dict[str, Any] = {
            "error": kind.__name__ if kind else None,
            "at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        }
        return {**fault, "error_message": str(error)} if self._content else fault


def configure(level: str, *, content: bool) -> None:
    """Send every log of this process to standard error, as JSON lines.

    Called after the vendors' SDKs are imported, as some set up logging of their own.
    """
    handler = {"class": "logging.StreamHandler", "formatter": "json"}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"json": {"()": JsonFormatter, "content": content}},
            "handlers": {"json": handler},
            "root": {"level": level.upper(), "handlers": ["json"]},
            "loggers": {name: {"level": "WARNING", "handlers": [], "propagate": True} for name in _VENDORS},
        }
    )
