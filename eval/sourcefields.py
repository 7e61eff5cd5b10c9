"""What converters know of the sources' entries; whatever else is in them is ignored."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from eval.errors import EvalError

__all__ = ["Document", "Hotpot", "Musique", "Paragraph", "Query", "parse"]

Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
M = TypeVar("M", bound=BaseModel)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)


class Hotpot(_Entry):
    """An entry of HotpotQA's distractor and fullwiki files, and of 2WikiMultihopQA, which took the form over.

    Attributes:
        supporting_facts: (title, number of the sentence) of what the answer rests on.
        context: (title, sentences) of the paragraphs, shuffled.
    """

    id: Text = Field(alias="_id")
    question: Text
    answer: str
    supporting_facts: tuple[tuple[str, int], ...]
    context: tuple[tuple[str, tuple[str, ...]], ...] = Field(min_length=1)
    type: str | None = None
    level: str | None = None


class Paragraph(_Entry):
    """A paragraph of MuSiQue."""

    idx: int
    title: str
    paragraph_text: Text
    is_supporting: bool


class Musique(_Entry):
    """An entry of MuSiQue.

    Attributes:
        answerable: False in the `full` files, where a supporting paragraph was taken out.
    """

    id: Text
    question: Text
    answer: str
    paragraphs: tuple[Paragraph, ...] = Field(min_length=1)
    question_decomposition: tuple[Mapping[str, Any], ...] = ()
    answer_aliases: tuple[str, ...] = ()
    answerable: bool = True


class Document(_Entry):
    """A line of a corpus; BEIR calls its id `_id`, others `id`, `docid` or `document_id`."""

    id: Text = Field(validation_alias=AliasChoices("_id", "id", "docid", "document_id"))
    title: str | None = None
    text: str


class Query(_Entry):
    """A line of a query file."""

    id: Text = Field(validation_alias=AliasChoices("_id", "id", "qid", "query_id"))
    text: Text = Field(validation_alias=AliasChoices("text", "query", "question"))


def parse(model: type[M], entry: Mapping[str, Any], place: str) -> M:
    """Read an entry.

    Raises:
        EvalError: `place: field: what is wrong with it`.
    """
    try:
        return model.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise EvalError(f"{place}: {field}: {first['msg']}") from None
