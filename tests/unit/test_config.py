# SPDX-License-Identifier: Apache-2.0
"""Every value knows where it came from, and a mistake names the nearest key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import zombiescope.config as config_module
from zombiescope.cli.main import main
from zombiescope.config import KEYS, listen_address, load_config, thresholds_for
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError
from zombiescope.pipeline.check import read_settings
from zombiescope.presenters.prometheus_rules import render_rules


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
    assert config.origins["thresholds.zombies_warning"] == f"file {file}"
    fresh = config._replace(
        values={**config.values, "listen": "x", "textfile": "y"}, origins=dict.fromkeys(config.origins, "new")
    )
    kept = fresh.with_kept(config, ["listen"])
    assert (kept.text("listen"), kept.origins["listen"]) == ("127.0.0.1:2", "flag")
    assert (kept.text("textfile"), kept.origins["textfile"]) == ("y", "new")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[agent]\nlisen = 1", "did you mean listen"),
        ("[agent]\ninterval_seconds = 0", "not a number from"),
        ("[agent]\ninterval_seconds = true", "not a number from"),
        ("[agent]\nlisten = 5", "not text"),
        ('[agent]\nevents = "magic"', "not one of auto"),
        ("[agnt]\n", "not a table"),
        ("agent = 3", "not a table"),
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


def test_what_is_shown_is_the_file_that_would_give_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a\nlisten = 1.toml"
    file.write_text('[agent]\nimage = "a \\"b\\" \\\\ #é"\n[thresholds]\nzombies_warning = 7\n', encoding="utf-8")
    assert main(["agent", "--config", str(file), "--state", "/s", "--show-config"]) == 0
    said = capsys.readouterr().out
    tables = tomllib.loads(said)
    config = load_config(str(file), {"state": "/s"})
    assert tables["agent"] == config.values
    assert tables["thresholds"] == config.thresholds._asdict()
    origins = {line.split(" = ")[0]: line.rpartition(" # ")[2] for line in said.splitlines() if " = " in line}
    assert (origins["state"], origins["listen"]) == ("flag", "default")
    assert origins["zombies_warning"].startswith("file ") and origins["zombies_warning"].endswith(
        "a\\x0alisten = 1.toml"
    )
    assert main(["agent", "--config", str(tmp_path / "none"), "--show-config"]) == 2


def test_thresholds_are_the_same_for_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default file is this host's: a recording from elsewhere is not measured by it, but by one that is named."""
    file = tmp_path / "zombiescope.toml"
    file.write_text(
        "[thresholds]\nzombies_warning = 7\ngrowth_critical_per_hour = 8\n[check]\nloops_warning = 3\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(config_module, "DEFAULT_FILE", str(file))
    assert load_config(None, {}).thresholds.zombies_warning == 7
    assert thresholds_for(None, is_live=True).zombies_warning == 7
    assert thresholds_for(None, is_live=False) == Thresholds()
    assert thresholds_for(str(file), is_live=False).zombies_warning == 7
    limits = read_settings(None, {}).limits
    assert (limits.of("zombies_warning"), limits.of("growth_critical"), limits.of("loops_warning")) == (7, 8, 3)
    assert read_settings(None, {"zombies_warning": 9.0}).limits.thresholds.zombies_warning == 9
    assert read_settings(None, {}, is_live=False).limits.thresholds.zombies_warning == Thresholds().zombies_warning


def test_a_limit_of_the_gate_goes_before_the_common_one(tmp_path: Path) -> None:
    file = tmp_path / "zombiescope.toml"
    file.write_text("[thresholds]\nzombies_warning = 7\n[check]\nzombies_warning = 8\n", encoding="utf-8")
    assert read_settings(bytes(file), {}).limits.thresholds.zombies_warning == 8
    file.write_text("[thresholds]\nzombies_warnin = 7\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        thresholds_for(str(file), is_live=True)
    assert caught.value.hint == "did you mean zombies_warning?"


def test_exported_rules_compare_with_the_thresholds() -> None:
    text = render_rules(limits=Thresholds(zombies_warning=77, throttled_share=0.5, growth_warning_per_hour=12))
    assert "zombiescope_memcg_zombies >= 77'" in text
    assert "ratio_rate5m > 0.5'" in text
    assert "3600 > 12'" in text
    assert "ZombieMemcgExpected" not in text
    expecting = render_rules(limits=Thresholds(expected_live=240))
    assert "expr: 'zombiescope_memcg_counted >= 720 and zombiescope_memcg_zombies >= 240'" in expecting


def test_where_it_listens_may_be_a_path() -> None:
    assert listen_address("unix:/run/a/b.sock") == "/run/a/b.sock"
    assert load_config(None, {"hosts": "a.example, b.example,,"}).words("hosts") == ["a.example", "b.example"]
    for nothing in ("unix:", "unix:/run/"):
        with pytest.raises(UsageError, match="no name"):
            listen_address(nothing)
