"""What was paid for: one graded list a line, enough to select from it again and again, with no text but the reply."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from eval.errors import EvalError
from eval.jsonl import read_objects
from pruner.schema import Status

__all__ = ["LISTWISE", "SETUP", "Record", "Setup", "read_records", "to_line"]

LISTWISE = "listwise"
_COUNTED = ("cost", "latency", "input_tokens", "output_tokens", "cached_tokens", "calls")


@dataclass(frozen=True)
class Setup:
    """By what a list was graded: two gradings of one list by one setup are one grading too many.

    Attributes:
        strategy: the question that was asked: `listwise`, `direct_select`, `budget_select` or `anchors`.
        model: `prefix:name`.
        prompt: its name.
        prompt_sha256: of its source.
        readout: `json` or `probe`.
        reply_format: of the JSON; empty for a probe.
        chunk_order: `reranker`, or `shuffle` with its seed.
        dials: other dials of the grading that are not at their default, such as `temperature=0`.
    """

    strategy: str
    model: str
    prompt: str
    prompt_sha256: str
    readout: str
    reply_format: str
    chunk_order: str
    dials: str = ""


SETUP = tuple(field.name for field in fields(Setup))


@dataclass(frozen=True)
class Record:
    """One graded list.

    Attributes:
        dataset: of the row, like `id`.
        n: number of chunks that were graded: the first of the row.
        list_sha256: `Row.sha256` of them; a record is used only with the list it is about.
        strategy: this and the next six, with `dials`, are the `Setup`.
        version: of the package that graded.
        status: ok, partial or fallback.
        reason: why it is not ok.
        grades: one per chunk, None where ungraded; all None for other questions than `listwise`.
        expected: mean level per chunk, None where the model gave none.
        selected: places the LLM chose, in its order, for `direct_select` and `budget_select`.
        anchors: level → score of the passage written for it, by the ranking function.
        ranked: score of each chunk by that same function; the list's own scores need not be on its scale.
        tokens: per chunk, as the package counts them.
        cost: US dollars; None where the model has no known price.
        latency: seconds.
        reply: the raw reply; may quote chunks.
    """

    dataset: str
    id: str
    n: int
    list_sha256: str
    strategy: str
    model: str
    prompt: str
    prompt_sha256: str
    readout: str
    reply_format: str
    chunk_order: str
    version: str
    status: str
    reason: str | None
    grades: tuple[int | None, ...]
    expected: tuple[float | None, ...]
    selected: tuple[int, ...] | None = None
    anchors: Mapping[str, float] | None = None
    ranked: tuple[float, ...] | None = None
    tokens: tuple[int, ...] | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 0
    cost: float | None = None
    latency: float = 0.0
    reply: str | None = None
    dials: str = ""

    @property
    def setup(self) -> Setup:
        """By what it was graded."""
        return Setup(*(getattr(self, name) for name in SETUP))

    @property
    def key(self) -> tuple[str, str, str, Setup]:
        """What is graded once."""
        return self.dataset, self.id, self.list_sha256, self.setup


_READ = TypeAdapter(Record)


def read_records(path: Path) -> Iterator[tuple[int, Record]]:
    """Stream (line number, record).

    Raises:
        EvalError: `file:line: field: what is wrong`.
    """
    for number, entry in read_objects(path):
        where = f"{path}:{number}"
        if unknown := sorted(entry.keys() - Record.__dataclass_fields__.keys()):
            raise EvalError(f"{where}: {unknown[0]}: no such field; is this a file of records?")
        try:
            record = _READ.validate_python(entry)
        except ValidationError as error:
            raise EvalError(f"{where}: {_first(error)}") from None
        _check(record, where)
        yield number, record


def to_line(record: Record) -> str:
    """Write a record as a line of JSON; what is as usual is left out."""
    usual = {field.name: field.default for field in fields(Record)}
    told = {name: value for name, value in asdict(record).items() if value != usual[name]}
    return json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n"


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'record'}: {fault['msg']}"


def _check(record: Record, where: str) -> None:
    lengths: Iterable[tuple[str, Any]] = [
        (name, getattr(record, name)) for name in ("grades", "expected", "ranked", "tokens")
    ]
    for name, values in lengths:
        if values is not None and len(values) != record.n:
            raise EvalError(f"{where}: {name}: {len(values)} values for {record.n} chunks")
    if any(grade not in (None, 1, 2, 3, 4, 5) for grade in record.grades):
        raise EvalError(f"{where}: grades: must be 1 to 5 or null")
    if any(mean is not None and not 1 <= mean <= 5 for mean in record.expected):
        raise EvalError(f"{where}: expected: must be from 1 to 5 or null")
    if any(not 0 <= place < record.n for place in record.selected or ()):
        raise EvalError(f"{where}: selected: must be places from 0 to {record.n - 1}")
    _check_usage(record, where)


def _check_usage(record: Record, where: str) -> None:
    if record.status not in list(Status):
        raise EvalError(f"{where}: status: must be one of {', '.join(Status)}, not {record.status!r}")
    for name in _COUNTED:
        if not 0 <= (getattr(record, name) or 0) < math.inf:
            raise EvalError(f"{where}: {name}: must be a finite number from 0 on")
    if any(count < 0 for count in record.tokens or ()):
        raise EvalError(f"{where}: tokens: must be from 0 on")
