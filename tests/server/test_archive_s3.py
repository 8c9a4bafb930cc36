# SPDX-License-Identifier: Apache-2.0
"""An archive in a bucket: moto's server speaks S3, the installed commands ship to it and ask it. The same captures in a folder give
the same answers; what a kill left does not count; a store that is away or refuses is an error with a way on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs
from tests.profiler.archived import ship_fleet
from tests.server.running import free_port

from zombiescope.cli.main import main
from zombiescope.profiler.archive.places import Where, place_at


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="needs moto, of requirements-dev.txt")
    kept = {name: os.environ.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")}
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_REGION="us-east-1")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        for name, value in kept.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture(scope="module")
def bucket(endpoint: str) -> str:
    store = fs.S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"), scheme="http", allow_bucket_creation=True
    )
    store.create_dir("profiles")
    return "s3://profiles/fleet"


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(["profile", "fleet", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return {name: value for name, value in found.items() if name != "archive"}


def test_a_bucket_answers_as_a_folder_does(
    endpoint: str, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = ship_fleet(place_at(Where(bucket, endpoint)))
    ship_fleet(place_at(Where(str(tmp_path))))
    for words in (
        ["diff", "--where", "zone=c"],
        ["top"],
        ["find", "--function", planted[0]],
        ["flame", "--where", "zone=a"],
    ):
        there = asked(capsys, *words, "--archive", bucket, "--endpoint", endpoint)
        assert there == asked(capsys, *words, "--archive", str(tmp_path))
    found = asked(capsys, "diff", "--where", "zone=c", "--archive", bucket, "--endpoint", endpoint)["found"]
    assert isinstance(found, list)
    assert found[0]["function"] == planted[0]


def test_shipping_again_puts_nothing(endpoint: str, bucket: str) -> None:
    place = place_at(Where(bucket, endpoint))
    ship_fleet(place)
    before = [place.listed(table, None) for table in ("stacks", "samples", "captures")]
    assert ship_fleet(place, again=True)[1] == 0
    assert [place.listed(table, None) for table in ("stacks", "samples", "captures")] == before


def test_a_store_that_is_away_or_has_no_bucket_is_said(
    endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    for target, where in (("s3://nobody/fleet", endpoint), ("s3://profiles/fleet", away)):
        assert main(["profile", "fleet", "top", "--archive", target, "--endpoint", where]) in (2, 3)
        told = capsys.readouterr().err
        assert told.startswith("error: ")
        assert "Traceback" not in told


def test_a_shipper_killed_between_two_files_leaves_nothing_that_counts(endpoint: str, bucket: str) -> None:
    place = place_at(Where("s3://profiles/killed", endpoint))
    code = (
        "import os, sys\nfrom tests.profiler import archived\nfrom zombiescope.profiler.archive import places\n"
        f"place = places.place_at(places.Where('s3://profiles/killed', {endpoint!r}))\n"
        "put = place.put\n"
        "place.put = lambda name, content: os._exit(9) if name.startswith('captures') else put(name, content)\n"
        "archived.ship_fleet(place)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2]).returncode == 9
    assert len(place.listed("samples", None)) == 1
    assert place.listed("captures", None) == []
    ship_fleet(place)
    assert len(place.listed("samples", None)) == len(place.listed("captures", None)) > 1
