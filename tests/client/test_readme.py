"""The examples of the client's README run as they are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

import kinbin_client
from kinbin_client import AsyncClient, Client

README = Path(__file__).resolve().parents[2] / "clients" / "python" / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
KEY = "canary-key-4711"


def test_examples_are_found() -> None:
    """There are examples to run."""
    assert len(EXAMPLES) == 7


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs(
    example: str, fake: Any, local_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pasted into a file, an example runs against a service that holds to the contract, or in local mode."""
    monkeypatch.chdir(local_path.parent)

    class Here(Client):
        def __init__(self, url: str = "", **options: Any) -> None:
            to: dict[str, Any] = {"url": url, "api_key": KEY, "transport": httpx.MockTransport(fake)} if url else {}
            super().__init__(**to, **options)

    class AsyncHere(AsyncClient):
        def __init__(self, url: str, **options: Any) -> None:
            super().__init__(url, **options, api_key=KEY, transport=httpx.MockTransport(fake))

    monkeypatch.setattr(kinbin_client, "Client", Here)
    monkeypatch.setattr(kinbin_client, "AsyncClient", AsyncHere)
    exec(compile(example, str(README), "exec"), {"__name__": "__main__"})
    assert "Client(" not in example or "print" not in example or capsys.readouterr().out


@pytest.mark.parametrize(
    "name", [name for name, value in vars(kinbin_client.errors).items() if isinstance(value, type) and issubclass(value, Exception)]
)
def test_errors_are_in_the_table(name: str) -> None:
    """Every error class but the details of connecting is in the README."""
    if name != "ConnectTimeout":
        assert f"`{name}`" in README.read_text(encoding="utf-8")
