# SPDX-License-Identifier: Apache-2.0
"""Every value knows where it came from, and a mistake names the nearest key."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.config import KEYS, listen_address, load_config
from zombiescope.errors import UsageError


def test_defaults_then_file_then_environment_then_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[agent]\nlisten = "127.0.0.1:1"\nstate = "/f"\ninterval_seconds = 5\n[thresholds]\nzombies_warning = 7\n'
    )
    monkeypatch.setenv("ZOMBIESCOPE_AGENT_STATE", "/e")
    monkeypatch.setenv("ZOMBIESCOPE_AGENT_RETENTION_DAYS", "3")
    config = load_config(str(file), {"listen": "127.0.0.1:2", "textfile": None})
    assert (config.text("listen"), config.origins["listen"]) == ("127.0.0.1:2", "flag")
    assert (config.text("state"), config.origins["state"]) == ("/e", "environment")
    assert (config.number("interval_seconds"), config.origins["interval_seconds"]) == (5, f"file {file}")
    assert (config.number("retention_days"), config.origins["retention_days"]) == (3, "environment")
    assert config.origins["textfile"] == "default"
    assert config.thresholds.zombies_warning == 7


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[agent]\nlisen = 1", "did you mean listen"),
        ("[agent]\ninterval_seconds = 0", "no number from"),
        ("[agent]\ninterval_seconds = true", "no number from"),
        ("[agent]\nlisten = 5", "no text"),
        ('[agent]\nevents = "magic"', "none of auto"),
        ("[agnt]\n", "no table"),
        ("agent = 3", "no table"),
        ("[thresholds]\nzombie_warning = 1", "did you mean zombies_warning"),
        ("[thresholds]\nzombies_warning = nan", "at least 0"),
        ("not toml", "TOML"),
        ("\x00", "TOML"),
    ],
)
def test_a_mistake_is_a_usage_error_that_helps(tmp_path: Path, text: str, word: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_config(str(file), {})
    assert word in f"{caught.value.why} {caught.value.hint}"


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_config(str(tmp_path / "none"), {})


def test_addresses() -> None:
    assert listen_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert listen_address("[::1]:80") == ("::1", 80)
    assert listen_address("") is None
    for wrong in ("80", ":80", "a:b", "a:70000", "a:"):
        with pytest.raises(UsageError):
            listen_address(wrong)


def test_the_agent_listens_on_loopback_unless_told() -> None:
    assert load_config(None, {}).text("listen").startswith("127.0.0.1:")
    assert all(key.meaning.endswith(".") for key in KEYS)
