import subprocess
import sys

import pruner


def test_the_public_names_are_sorted_and_exist() -> None:
    assert pruner.__all__ == sorted(pruner.__all__)
    assert all(hasattr(pruner, name) for name in pruner.__all__)


def test_importing_the_package_loads_no_vendor_sdk_token_table_or_numpy() -> None:
    heavy = ["openai", "anthropic", "litellm", "tiktoken", "numpy", "xllamacpp", "huggingface_hub", "genai_prices"]
    code = f"import sys, pruner; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
