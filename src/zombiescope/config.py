# SPDX-License-Identifier: Apache-2.0
"""The configuration: defaults, then a TOML file, then the environment, then flags. Each value knows where it came from.

Unknown keys are errors that name the nearest key. `[thresholds]` is the one source of every command that judges. What root reads
must be root's: a stranger's file would tell it where to listen, where to write and what to call well. Entry points and the
pipeline know this; rooms get plain values.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError, reason_of

DEFAULT_FILE = "/etc/zombiescope.toml"
DEFAULT_STATE, DEFAULT_CAPTURES = "/var/lib/zombiescope", "/var/lib/zombiescope/captures"
ENVIRONMENT_PREFIX, PROFILE_PREFIX, UNIX_PREFIX = "ZOMBIESCOPE_AGENT_", "ZOMBIESCOPE_PROFILE_", "unix:"
EVENT_CHOICES = ("auto", "bpf", "tracefs", "polling")
Value = str | float | int


class Key(NamedTuple):
    name: str
    default: Value
    unit: str
    meaning: str
    least: float = 0
    most: float = 1e12


KEYS = (
    Key(
        "listen",
        "127.0.0.1:9753",
        "ADDRESS:PORT, unix:PATH",
        "Where /metrics, /healthz and /api/v1 are served; empty: nowhere. A path is a socket that only its owner can open.",
    ),
    Key(
        "hosts",
        "",
        "names, by commas",
        "More names that it answers to, besides its address, localhost and, beyond loopback, the host's own name.",
    ),
    Key(
        "token_file",
        "",
        "file",
        "Readers must send what it holds (Authorization: Bearer ...); empty: no token is needed.",
    ),
    Key("state", DEFAULT_STATE, "folder", "Where the history is kept; empty: nowhere."),
    Key("textfile", "", "file", "Also written here, for node_exporter's textfile collector; empty: nowhere."),
    Key("interval_seconds", 10.0, "seconds", "Between two looks.", 1, 3600),
    Key("heavy_interval_seconds", 300.0, "seconds", "Between two residuals and sweeps.", 300, 86_400),
    Key("walk_interval_seconds", 3600.0, "seconds", "Between two walks of the kernel's own tree.", 300, 864_000),
    Key("retention_days", 30.0, "days", "How long the history is kept.", 0.05, 3650),
    Key("retention_megabytes", 60.0, "megabytes", "How large the history may become.", 1, 100_000),
    Key("events", "auto", "auto, bpf, tracefs, polling", "How births and deaths are seen; auto takes the best."),
    Key(
        "kubernetes_tell",
        "",
        "condition, events",
        "What the cluster's API server is sent: the node condition ZombieMemcgPressure, events when it changes; empty: nothing.",
    ),
    Key("kubernetes_node", "", "name", "This node's name in the cluster; empty: the host's."),
    Key(
        "kubernetes_cluster", "", "name", "The cluster's name, for documents and the label of node_info; empty: untold."
    ),
    Key("kubernetes_api", "", "https://HOST:PORT", "The API server; empty: as the environment of a pod names it."),
    Key(
        "kubernetes_account",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "folder",
        "Where the service account's token and ca.crt are.",
    ),
    Key("kubernetes_hold_seconds", 120.0, "seconds", "How long it must have changed before it is told.", 1, 86_400),
    Key("kubernetes_heartbeat_seconds", 300.0, "seconds", "Between two heartbeats of the condition.", 10, 86_400),
    Key("image", "", "name", "The machine image, for the label of node_info; empty: cloud-init's or os-release's."),
)
PROFILE_KEYS = (
    Key("record", False, "true, false", "The agent keeps a recorder running; off unless switched on here."),
    Key("captures", DEFAULT_CAPTURES, "folder", "Where captures are stored."),
    Key("sampler", "own", "own, perf, auto", "Who samples: zombiescope itself, perf, or perf where it works."),
    Key("rate_hz", 49.0, "per second", "Samples of each core.", 1, 10_000),
    Key("segment_seconds", 120.0, "seconds", "Length of each capture.", 1, 3600),
    Key("keep_megabytes", 1024.0, "megabytes", "How large the ring may become.", 1, 1e7),
    Key(
        "keep_days",
        7.0,
        "days",
        "How old a capture may become; one that is worth keeping four times as old.",
        0.001,
        3650,
    ),
    Key(
        "prefer",
        "saturated-core,nic-reset,finding",
        "names, by commas",
        "Captures around these are kept longer than others: saturated-core, nic-reset, finding.",
    ),
    Key("around_seconds", 120.0, "seconds", "How long before and after such a moment.", 0, 86_400),
    Key("least_free_megabytes", 256.0, "megabytes", "Room on the disk that others are left; at most a tenth of it."),
    Key(
        "most_cpu_percent", 1.0, "percent of a core", "Beyond it fewer samples are taken; 0: there is no limit.", 0, 100
    ),
)
_CHOICES = {"events": EVENT_CHOICES, "sampler": ("own", "perf", "auto")}
EVENTS = ("saturated-core", "nic-reset", "finding")
_THRESHOLDS = Thresholds._fields
_TABLES = ("agent", "profile", "thresholds", "check", "waiver", "need")
_LISTS = ("waiver", "need")
"""One file for all commands: `check` has its own tables, which the others leave alone."""
_MOST_BYTES = 1 << 20
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Config(NamedTuple):
    values: Mapping[str, Value]
    origins: Mapping[str, str]
    thresholds: Thresholds

    def text(self, name: str) -> str:
        return str(self.values[name])

    def words(self, name: str) -> list[str]:
        return [word.strip() for word in self.text(name).split(",") if word.strip()]

    def number(self, name: str) -> float:
        return float(self.values[name])

    def with_kept(self, before: "Config", names: Iterable[str]) -> "Config":
        """These values stay as they were, and come from where they came from."""
        kept = tuple(names)
        return self._replace(
            values={**self.values, **{name: before.values[name] for name in kept}},
            origins={**self.origins, **{name: before.origins[name] for name in kept}},
        )


def load_config(file: str | None, flags: Mapping[str, Value | None]) -> Config:
    """`file`: None takes the default one where it exists; one that is named must exist."""
    return _load("agent", KEYS, ENVIRONMENT_PREFIX, file, flags)


def load_profile_config(file: str | None, flags: Mapping[str, Value | None]) -> Config:
    """`[profile]`: what the recorder does that is always on. It judges nothing: thresholds are the usual ones."""
    return _load("profile", PROFILE_KEYS, PROFILE_PREFIX, file, flags)


def _load(table: str, keys: Iterable[Key], prefix: str, file: str | None, flags: Mapping[str, Value | None]) -> Config:
    known = {key.name: key for key in keys}
    values: dict[str, Value] = {name: key.default for name, key in known.items()}
    origins = dict.fromkeys(values, "default")
    thresholds = Thresholds()
    if (path := file_to_read(file)) is not None:
        tables = _tables(read_safely(path), path)
        _take(values, origins, tables.get(table, {}), f"file {path}", known)
        if table == "agent":
            thresholds = _with_thresholds(thresholds, tables.get("thresholds", {}), origins, f"file {path}")
    given = {name.removeprefix(prefix).lower(): value for name, value in os.environ.items() if name.startswith(prefix)}
    _take(values, origins, given, "environment", known)
    _take(values, origins, {name: value for name, value in flags.items() if value is not None}, "flag", known)
    return Config(values, origins, thresholds)


def file_to_read(file: str | None) -> str | None:
    return file if file is not None else DEFAULT_FILE if os.path.lexists(DEFAULT_FILE) else None


def thresholds_for(file: str | None, *, is_live: bool) -> Thresholds:
    """What this host's findings are measured by, for every command alike.

    A recording comes from elsewhere: this host's own file says nothing of it, so that it gets the same verdict everywhere. A
    file that is named counts for both.
    """
    path = file_to_read(file) if is_live or file is not None else None
    return Thresholds() if path is None else thresholds_in(read_safely(path), path)


def thresholds_in(text: bytes, path: str) -> Thresholds:
    return _with_thresholds(Thresholds(), _tables(text, path).get("thresholds", {}), {}, f"file {path}")


def read_safely(path: str) -> bytes:
    """The file that was opened is the one that is judged: a plain one, and for root one that only root can write."""
    from zombiescope.host.safe_open import NotRegularError, open_regular  # noqa: PLC0415 (only where there is a file)

    try:
        descriptor, status = open_regular(path, follow=True)
        with os.fdopen(descriptor, "rb") as file:
            if os.geteuid() == 0:
                _refuse_strangers(path, status)
            text = file.read(_MOST_BYTES + 1)
    except NotRegularError as error:
        raise UsageError(f"cannot use the configuration {path}", "it is not a regular file", "--config FILE") from error
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}", reason_of(error), "--config FILE") from error
    if len(text) > _MOST_BYTES:
        raise UsageError(f"cannot use the configuration {path}", "it is larger than 1 MiB", "--config FILE")
    return text


def _refuse_strangers(path: str, about: os.stat_result) -> None:
    """Not `why_foreign`: anybody may read it, who is not root obeys what they name, and each reason has a cure of its own."""
    what = f"cannot use the configuration {path}"
    if about.st_uid != 0:
        raise UsageError(
            what, f"it belongs to user {about.st_uid}, and root trusts only its own files", f"chown root: {path}"
        )
    if about.st_mode & _OTHERS_WRITE:
        raise UsageError(what, "users other than root can write to it", f"chmod go-w {path}")


def _tables(text: bytes, path: str) -> dict[str, Mapping[str, object]]:
    import tomllib  # noqa: PLC0415 (only where there is a file)

    try:
        tables = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot use the configuration {path}", str(error), "it must be TOML in UTF-8") from error
    for name, table in tables.items():
        if name not in _TABLES or not isinstance(table, list if name in _LISTS else dict):
            raise UsageError(
                f"cannot use the configuration {path}",
                f"{name!r} is not a table we know",
                "[agent], [profile], [thresholds], [check], [[waiver]], [[need]]",
            )
    return tables


def _take(
    values: dict[str, Value],
    origins: dict[str, str],
    given: Mapping[str, object],
    origin: str,
    known: Mapping[str, Key],
) -> None:
    for name, value in given.items():
        if (key := known.get(name)) is None:
            raise _unknown(name, list(known), origin)
        values[name] = _checked(key, value, origin)
        origins[name] = origin


def _checked(key: Key, value: object, origin: str) -> Value:
    what = f"cannot use {key.name} ({origin})"
    if isinstance(key.default, bool):
        if str(value).lower() not in ("true", "false"):
            raise UsageError(what, f"{value!r} is neither true nor false", f"{key.name} = true")
        return str(value).lower() == "true"
    if isinstance(key.default, str):
        if not isinstance(value, str) or "\0" in value:
            raise UsageError(what, f"{value!r} is not text", f'{key.name} = "{key.default}"')
        choices = _CHOICES.get(key.name, (value,))
        if value not in choices:
            raise UsageError(what, f"{value!r} is not one of {', '.join(choices)}", f'{key.name} = "{key.default}"')
        if key.name == "prefer" and (
            strange := [w.strip() for w in value.split(",") if w.strip() not in (*EVENTS, "")]
        ):
            raise UsageError(what, f"{strange[0]!r} is not one of {', '.join(EVENTS)}", f'prefer = "{key.default}"')
        return value
    number = _number(value)
    if number is None or not key.least <= number <= key.most:
        raise UsageError(
            what, f"{value!r} is not a number from {key.least:g} to {key.most:g}", f"{key.name} = {key.default:g}"
        )
    return number


def _with_thresholds(
    thresholds: Thresholds, given: Mapping[str, object], origins: dict[str, str], origin: str
) -> Thresholds:
    for name, value in given.items():
        if name not in _THRESHOLDS:
            raise _unknown(name, list(_THRESHOLDS), origin)
        number = _number(value)
        if number is None or number < 0:
            raise UsageError(
                f"cannot use {name} ({origin})", f"{value!r} is not a number of at least 0", f"{name} = 1000"
            )
        kind = type(getattr(thresholds, name))
        thresholds = thresholds._replace(**{name: kind(number)})
        origins[f"thresholds.{name}"] = origin
    return thresholds


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if -1e300 < number < 1e300 else None


def _unknown(name: str, known: list[str], origin: str) -> UsageError:
    import difflib  # noqa: PLC0415 (only for who mistyped)

    near = difflib.get_close_matches(name, known, 1)
    return UsageError(
        f"cannot use the configuration ({origin})",
        f"there is no key {name!r}",
        f"did you mean {near[0]}?" if near else ", ".join(known),
    )


def listen_address(text: str) -> tuple[str, int] | str | None:
    """None: serve nowhere. `[::1]:9753` for IPv6. A text is the path of a socket."""
    if not text:
        return None
    if text.startswith(UNIX_PREFIX):
        path = text.removeprefix(UNIX_PREFIX)
        if not os.path.basename(path):
            raise UsageError(
                f"cannot listen on {text!r}", "it has no name", "--listen unix:/run/zombiescope-agent/http.sock"
            )
        return path
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"cannot listen on {text!r}", "it is not ADDRESS:PORT", "--listen 127.0.0.1:9753")
    return host.removeprefix("[").removesuffix("]"), int(port)


def watchdog_seconds() -> float | None:
    """How often systemd wants to hear from us."""
    micros = os.environ.get("WATCHDOG_USEC", "")
    return int(micros) / 1e6 if micros.isascii() and micros.isdigit() and int(micros) else None


def notify_socket() -> str | None:
    return os.environ.get("NOTIFY_SOCKET") or None
