"""Pages of the documentation site, looked at by axe-core in a browser, light and dark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from browser import browsing, found

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "tests" / "data" / "axe-core" / "axe.min.js"
PAGES = ("index.html", "guide/queries.html", "how-to/cluster-operations.html")


def test_pages_have_no_serious_violation(tmp_path: Path) -> None:
    """axe finds nothing serious: texts stand out from what is behind them, links from texts, and dialogs have names."""
    found()
    site = tmp_path / "site"
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": "docs"}
    build = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "--site-dir", str(site)]
    subprocess.run(build, cwd=ROOT, env=environment, check=True, timeout=200)
    bad = []
    with browsing() as browser:
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme).new_page()
            for name in PAGES:
                page.goto((site / name).as_uri())
                nameless = page.locator("[role=dialog]:not([aria-label])").count()
                bad += [(scheme, name, "aria-dialog-name", nameless)] * min(1, nameless)
                page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
                told = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa', 'best-practice']})")
                bad += [
                    (scheme, name, one["id"], one["nodes"][0]["target"])
                    for one in told["violations"]
                    if one["impact"] in ("serious", "critical")
                ]
    assert bad == []
