"""What any text may need before it leaves the process."""

__all__ = ["without_surrogates"]


def without_surrogates(text: str) -> str:
    """Return a text with `?` for each lone surrogate, which JSON can write and no file or socket takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
