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
        self._current = _context(certificate, key)
        self.context = _context(certificate, key)
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
        reason = error.reason or "they are no PEM files of a certificate and its key"
        raise ValueError(f"{' and '.join(str(path) for path in (certificate, key) if path)} cannot be used for TLS: {reason}") from None
    except OSError as error:
        unread = next((path for path in (certificate, key) if path is not None and not path.is_file()), certificate)
        raise ValueError(f"{unread} cannot be read for TLS: {error.strerror}") from None
    return context


def _no_password() -> str:
    # Without it OpenSSL would ask on the terminal, and wait.
    raise ValueError("the key for TLS is encrypted: the server has nobody to ask for its password; store it without one")
