"""Settings: one table, from the environment; keys from files; exposure without a key."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from pydantic import ValidationError

from kinbin_service import server
from kinbin_service.settings import Settings, is_loopback


def test_every_setting_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable with the prefix KINBIN_ sets the field of its name; an empty one does not."""
    monkeypatch.setenv("KINBIN_DATA_DIR", "/srv/kinbin")
    monkeypatch.setenv("KINBIN_WORKERS", "3")
    monkeypatch.setenv("KINBIN_API_KEY", "")
    monkeypatch.setenv("KINBIN_DEADLINE_SECONDS", "2.5")
    settings = Settings()
    assert (settings.data_dir, settings.workers, settings.key, settings.deadline_seconds) == (Path("/srv/kinbin"), 3, None, 2.5)


def test_settings_survive_the_way_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one process exports, its workers read back unchanged, also where a setting is not set."""
    monkeypatch.setenv("KINBIN_API_KEY_FILE", "left/over")
    original = Settings(
        data_dir=Path("x y"), port=1234, api_key="k e y", api_key_file=None, insecure=True, deadline_seconds=0.25, access_log=False
    )
    for name in original.environment():
        monkeypatch.setenv(name, "to be replaced")
    original.export()
    assert Settings() == original


def test_every_setting_says_what_it_is() -> None:
    """Each field of the table has a description, as documents are made of it."""
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 70_000},
        {"workers": 0},
        {"threads": 0},
        {"deadline_seconds": 0},
        {"log_level": "loud"},
        {"max_body_bytes": 1},
        {"search_seconds": float("inf")},
        {"header_seconds": float("nan")},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    """Values out of range are refused with the name of the setting."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Settings(**wrong)


def test_what_is_wrong_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the variable and the words that it takes, and is none of the validator's own."""
    monkeypatch.setenv("KINBIN_LOG_LEVEL", "loud")
    with pytest.raises(ValueError, match=r"^KINBIN_LOG_LEVEL: should be 'debug', 'info', 'warning' or 'error'$"):
        server.run()


def test_a_misspelt_variable_is_told() -> None:
    """A variable that sets nothing is told with the setting that is near; others of the prefix are left alone."""
    others = ["KINBIN_WORKERS", "KINBIN_DATA", "KINBIN_CLUSTER_NODE", "KINBIN_SERVICE_HOST", "KINBIN_PORT_8080_TCP_ADDR", "WORKRS"]
    assert Settings.misspelt(["KINBIN_WORKRS", *others]) == {"KINBIN_WORKRS": "KINBIN_WORKERS"}


def test_snapshots_need_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be made, or written to, ends the server at its start; one that is absent is made."""
    Settings(snapshots_dir=tmp_path / "new/one").check_folders()
    assert (tmp_path / "new/one").is_dir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(ValueError, match=r"KINBIN_SNAPSHOTS_DIR names .* is no directory"):
            server.run(Settings(data_dir=tmp_path / "data", snapshots_dir=path))
    with pytest.raises(ValueError, match=r"KINBIN_SNAPSHOTS_DIR names /proc/x, which cannot be made: "):
        server.run(Settings(data_dir=tmp_path / "data", snapshots_dir=Path("/proc/x")))
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match="which this user may not write to"):
        Settings(snapshots_dir=tmp_path / "new/one").check_folders()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("at_terminal", [True, False])
def test_a_server_without_a_certificate_heeds_sighup(
    at_terminal: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends one that was started at a terminal, after what is in flight; of another it changes nothing. Ignored, it stays so."""
    monkeypatch.setattr(server, "_at_terminal", lambda: at_terminal)
    previous = signal.getsignal(signal.SIGHUP)
    running = server.DrainingServer(uvicorn.Config("none:none"))
    try:
        for default in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGHUP, default)
            server.heed_hangups(running)
            if default is signal.SIG_DFL:
                os.kill(os.getpid(), signal.SIGHUP)
            assert (signal.getsignal(signal.SIGHUP) is signal.SIG_IGN) == (default is signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert running.should_exit == at_terminal
    assert ("SIGHUP changes nothing" in caplog.text) != at_terminal


def test_the_key_comes_from_a_file(tmp_path: Path) -> None:
    """A key file holds the key on one line; its end of line is not part of it."""
    (tmp_path / "key").write_text("abc def\n")
    assert Settings(api_key_file=tmp_path / "key").key == "abc def"
    (tmp_path / "key").write_text("\n")
    with pytest.raises(ValueError, match="holds no API key"):
        _ = Settings(api_key_file=tmp_path / "key").key


def test_two_sources_of_a_key_are_refused() -> None:
    """A key and a key file together are a mistake."""
    with pytest.raises(ValidationError, match="not both"):
        Settings(api_key="a", api_key_file=Path("b"))


@pytest.mark.parametrize("key", [" ", "ключ", "a\nb", "\x7f"])
def test_a_key_that_no_header_carries_is_refused(key: str) -> None:
    """A key consists of visible ASCII characters."""
    with pytest.raises(ValidationError, match="visible ASCII"):
        Settings(api_key=key)


def test_a_key_is_not_shown() -> None:
    """Printing settings does not print the key."""
    assert "hush" not in repr(Settings(api_key="hush"))


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
        ("", False),
    ],
)
def test_only_loopback_addresses_go_without_a_key(host: str, loopback: bool) -> None:
    """Any other address is refused without a key, unless somebody said that this is wanted."""
    assert is_loopback(host) == loopback
    if loopback:
        Settings(host=host).check_exposure()
    else:
        with pytest.raises(ValueError, match="KINBIN_API_KEY"):
            Settings(host=host).check_exposure()
    Settings(host=host, insecure=True).check_exposure()
    Settings(host=host, api_key="key").check_exposure()
