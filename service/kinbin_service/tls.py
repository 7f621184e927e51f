"""TLS: a certificate and its key from files, read again at SIGHUP. Connections that are open keep what they were made with."""

from __future__ import annotations

import logging
import signal
import ssl
import threading
from pathlib import Path

__all__ = ["Certificate"]

log = logging.getLogger("kinbin.service")


class Certificate:
    """The certificate that new connections are shown.

    `context` is what a server listens with, for good. What it shows is `_current`: a context that is made whole of both files, so that
    nothing of an older pair (a key of another kind, a longer chain) is left in it.
    """

    def __init__(self, certificate: Path, key: Path | None) -> None:
        """key: None: it stands in the file of the certificate. ValueError for files that cannot be used; its text shows neither."""
        self._files = certificate, key
        self.context = self._current = _context(certificate, key)
        self.context.sni_callback = self._show

    def _show(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        # Called for each connection, whether or not it names a host.
        connection.context = self._current

    def reload(self) -> bool:
        """Read both files again. Those that cannot be used are logged, and change nothing; says whether they were taken."""
        try:
            self._current = _context(*self._files)
        except ValueError as error:
            log.warning("the certificate stays as it was", extra={"fields": {"reason": str(error)}})
            return False
        log.info("the certificate was read again", extra={"fields": {"file": str(self._files[0])}})
        return True

    def reload_at_hangup(self) -> None:
        """From now on read the files again whenever this process gets SIGHUP. For the main thread; elsewhere nothing is done."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGHUP, lambda *_: self.reload())


def _context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        raise ValueError(_why(certificate, key, error.reason)) from None
    except OSError as error:
        unread = next((path for path in (certificate, key) if path is not None and not path.is_file()), certificate)
        raise ValueError(f"{_named(unread, certificate)}, which cannot be read: {error.strerror}") from None
    return context


def _why(certificate: Path, key: Path | None, reason: str | None) -> str:
    """What is wrong with files that OpenSSL does not take: mostly it says no more than that."""
    if b"CERTIFICATE-----" not in certificate.read_bytes():
        return f"{_named(certificate, certificate)}, which holds no certificate in PEM"
    if key is None and b"PRIVATE KEY-----" not in certificate.read_bytes():
        return f"{_named(certificate, certificate)}, which holds no private key: set KINBIN_TLS_KEY_FILE"
    if key is not None and b"PRIVATE KEY-----" not in key.read_bytes():
        return f"{_named(key, certificate)}, which holds no private key in PEM"
    names = " and ".join(_named(path, certificate) for path in (certificate, key) if path is not None)
    return f"{names}, which cannot be used for TLS: {reason or 'OpenSSL cannot read them'}"


def _named(path: Path, certificate: Path) -> str:
    """The variable of a file, and the file."""
    return f"KINBIN_TLS_{'CERT' if path == certificate else 'KEY'}_FILE names {path}"


def _no_password() -> str:
    # Without it OpenSSL would ask on the terminal, and wait.
    raise ValueError("the key for TLS is encrypted: the server has nobody to ask for its password; store it without one")
