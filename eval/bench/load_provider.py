"""A provider for load runs: answers after a fixed delay, fails now and then, and says what each request met.

    python -m eval.bench.load_provider [--faults 0.05]

Writes its port, and serves until it is ended. A request is known by the number in its query (`numbered`). The answer
holds, in place of the tokens of the reply, the microseconds since that number first arrived here.
"""

import argparse
import asyncio
import json
import random
import re
import sys

import uvloop

__all__ = ["CHUNKS", "Provider", "numbered", "serve"]

CHUNKS = 15
DELAY = 0.3
_BAD = b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"
_NUMBER = re.compile(rb"request (\d{9})")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def numbered(number: int) -> str:
    """Return a query by which the provider knows a request and all its attempts."""
    return f"How long are backups kept, asks request {number:09}?"


def _good() -> bytes:
    """Return an answer with a place for a number of nine digits or blanks."""
    text = json.dumps({"grades": [[label, 5 if label <= 3 else 1] for label in range(1, CHUNKS + 1)]})
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 4000, "total_tokens": 4080, "completion_tokens": 123456789}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
    content = json.dumps(body).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(content)
    return head + content.replace(b"123456789", b"%9d")


class Provider:
    """Answers, and remembers when each request began.

    Args:
        faults: share of the answers that are 500.
        delay: seconds that each answer takes.
    """

    def __init__(self, faults: float, delay: float = DELAY) -> None:
        self.faults, self._delay, self._good = faults, delay, _good()
        self._begun: dict[bytes, float] = {}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                writer.write(await self.answer(body))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    async def answer(self, body: bytes) -> bytes:
        """Return the answer to a request when it is due, or a fault."""
        clock = asyncio.get_running_loop().time
        number = _NUMBER.search(body)
        name = number[1] if number else b""
        begun = self._begun.setdefault(name, clock())
        await asyncio.sleep(self._delay)
        if random.random() < self.faults:
            return _BAD
        self._begun.pop(name, None)
        return self._good % round(1e6 * (clock() - begun))


async def serve(faults: float) -> None:
    """Serve on a free port."""
    server = await asyncio.start_server(Provider(faults).connected, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Read the option and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=float, default=0.05, help="share of the answers that are 500")
    uvloop.run(serve(parser.parse_args().faults))


if __name__ == "__main__":
    main()
