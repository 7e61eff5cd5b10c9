"""How bodies are read: nothing unknown, nothing converted, and a string where an object with a `text` is meant."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

__all__ = ["ListOf", "Strict", "TextOr"]

T = TypeVar("T")
# The first wrong entry is the one that is named: a fault for each of a million takes seconds and a gigabyte.
ListOf = Annotated[list[T], Field(fail_fast=True)]


class Strict(BaseModel):
    """A body without unknown fields, NaN, or numbers written as text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class TextOr(BaseModel):
    """An object with a `text`, for which a string may stand."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        return {"text": given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Say that a string will do."""
        return {"anyOf": [{"type": "string"}, handler(schema)]}
