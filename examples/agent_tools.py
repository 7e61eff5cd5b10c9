"""An agent's search tool: long results are pruned, what was left out can be asked for, a hit is sent once."""

import json

from examples.common import DEFAULT_QUESTION, corpus, pruner_from_arguments
from pruner import RequestError
from pruner.integrations.agents import Conversation, prune_tool_output_sync


def search_documentation(words: str) -> str:
    """Search, as a tool that answers in JSON."""
    found = corpus().search(words)
    return json.dumps({"results": [{"title": chunk.title, "text": chunk.text} for chunk in found]})


def main() -> None:
    """Let an agent call its tools in turn."""
    pruner, conversation = pruner_from_arguments(__doc__), Conversation()

    def search(words: str) -> str:
        output = search_documentation(words)
        return prune_tool_output_sync(DEFAULT_QUESTION, output, pruner=pruner, conversation=conversation)

    def show_omitted(omission: str) -> str:
        try:
            return conversation.recall(omission)
        except RequestError as error:
            return str(error)

    first = search(DEFAULT_QUESTION)
    print(first)
    note = first.splitlines()[-1]
    print(show_omitted(note.split('"')[1])[:300], "…")
    print(search("secure hashes and message digests"))


if __name__ == "__main__":
    main()
