"""What the provider answers: the same events, each told in the format that a reranker asked its model for."""

import json
from collections.abc import Callable

QUERY = "How do I store passwords, and how do I compare two digests?"
# The answer needs the 3rd and the 7th.
TEXTS = [
    "hashlib offers the algorithms of the SHA family behind one interface.",
    "A digest is as long as its algorithm says; hexdigest doubles that in characters.",
    "hashlib.scrypt derives a key from a password, with a salt and a cost that slows guessing.",
    "pickle turns objects into bytes and must never read data from strangers.",
    "secrets.token_hex makes a random string for links that must not be guessed.",
    "A dictionary finds its entries by the hash of their keys.",
    "hmac.compare_digest compares two digests in a time that does not depend on their content.",
    "filecmp.cmp compares two files.",
    "random is not for secrets: its state can be worked out from its output.",
    "unittest compares values with assertEqual.",
]

Tell = Callable[[list[int]], str]


def pairs(numbers: list[int]) -> str:
    """Grade every document, the numbered ones 5 (`pruner`)."""
    listed = [n for n in range(1, 11) if n not in numbers] if numbers else []
    return json.dumps({"grades": [*([n, 5] for n in numbers), *([n, 1] for n in listed)]})


def zero_based(numbers: list[int]) -> str:
    """List ids counted from 0 (LangChain)."""
    return json.dumps({"ranked_document_ids": [n - 1 for n in numbers]})


def indices(numbers: list[int]) -> str:
    """List indices in objects (Haystack)."""
    return json.dumps({"documents": [{"index": n} for n in numbers]})


def relevances(numbers: list[int]) -> str:
    """Write a line per document (LlamaIndex)."""
    return "\n".join(f"Doc: {n}, Relevance: {10 - place}" for place, n in enumerate(numbers))


def permutation(numbers: list[int]) -> str:
    """Write [3] > [7] (RankGPT)."""
    return " > ".join(f"[{n}]" for n in numbers)


def labels(numbers: list[int]) -> str:
    """Label every document in tags, ids counted from 0 (`rerankers`)."""
    said = {n: "RELEVANT" if n in numbers else "NOT_RELEVANT" for n in range(1, 11)} if numbers else {}
    told = [*((n, said[n]) for n in said if n not in numbers), *((n, "RELEVANT") for n in numbers)]
    entry = "<document id={}>\n<explanation>…</explanation>\n<answer>\n{}\n</answer>\n</document>"
    return "\n".join(entry.format(n - 1, label) for n, label in told)


FORMATS: dict[str, Tell] = {
    "LLMListwiseRerank": zero_based,
    "LLMRerank": relevances,
    "RankGPTRerank": permutation,
    "LLMRanker": indices,
    "RankGPTRanker": permutation,
    "LLMRelevanceFilter": labels,
    **dict.fromkeys(("LangChain", "LlamaIndex", "Haystack", "function"), pairs),
}

# By what happens: which documents the reply names, and what is done to its text.
EVENTS: dict[str, tuple[list[int], Callable[[str], str]]] = {
    "a good reply": ([7, 3], str),
    "an id above the range": ([7, 3, 99], str),
    "an id below the range": ([7, 3, 0], str),
    "an id twice": ([7, 3, 7], str),
    "an empty list": ([], str),
    "a fenced reply": ([7, 3], lambda text: f"Here it is:\n```json\n{text}\n```"),
    "cut off in the middle": ([7, 3], lambda text: text[: len(text) // 2]),
    "prose": ([], lambda text: "I cannot rank these documents."),
}

ABOUT_IDS = {"an id above the range", "an id below the range", "an id twice"}


def reply(event: str, method: str, asked: str) -> str:
    """Write a method's reply in an event; `asked` is the request's text: the chain filter's holds one document."""
    numbers, change = EVENTS[event]
    if method != "LLMChainFilter":
        return change(FORMATS[method](numbers))
    yes = any(TEXTS[n - 1] in asked for n in numbers if 0 < n <= len(TEXTS))
    return change("" if event == "an empty list" else "YES" if yes else "NO")
