"""Certificates for tests, signed by themselves, made by the program openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path, name: str, *, kind: str = "ec") -> tuple[Path, Path]:
    """Files of a certificate for localhost, whose common name is `name`, and of its key; kind: "ec" or "rsa"."""
    if shutil.which("openssl") is None:
        pytest.skip("the program openssl is not here")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    new_key = ["-newkey", "rsa:2048"] if kind == "rsa" else ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    subprocess.run(
        ["openssl", "req", "-x509", *new_key, "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return certificate, key
