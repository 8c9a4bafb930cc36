# SPDX-License-Identifier: Apache-2.0
"""Paths of every driver we know, and what must not be taken for one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.maker import Makers, fold_path, instance_of, maker_of

ID = "a3f5" * 16
UID = "0f9e8d7c-6b5a-4c3d-2e1f-0a9b8c7d6e5f"
UNDER = UID.replace("-", "_")
TASK = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("path", "maker"),
    [
        ("/system.slice/ecs.service", "unit:ecs.service"),
        ("/system.slice/system-getty.slice/getty@tty1.service", "unit:getty@.service"),
        ("/system.slice/crash@12345.service", "unit:crash@.service"),
        ("/system.slice/nginx1.service", "unit:nginx1.service"),
        ("/system.slice/foo.service/sub/x12", "unit:foo.service"),
        ("/system.slice/_memory.service", "unit:memory.service"),
        (f"/system.slice/run-r{TASK}.scope", "unit:run-r*.scope"),
        ("/system.slice/run-u1234.service", "unit:run-u*.service"),
        ("/system.slice/run-p1234-i5678.service", "unit:run-p*-i*.service"),
        (r"/machine.slice/machine-qemu\x2d3\x2dvm20.scope", r"unit:machine-qemu\\x2d*\\x2dvm*.scope"),
        ("/system.slice", "unit:system.slice"),
        (f"/docker/{ID}", "container:docker"),
        (f"/system.slice/docker-{ID}.scope", "container:docker"),
        (f"/system.slice/docker.service/docker/{ID}", "container:docker"),
        (f"/machine.slice/libpod-{ID}.scope", "container:podman"),
        (f"/machine.slice/libpod-conmon-{ID}.scope", "container:podman"),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container", "container:podman"),
        (f"/libpod_parent/libpod-{ID}", "container:podman"),
        (f"/libpod_parent/{ID}", "container:podman"),
        (f"/machine.slice/machine-libpod_pod_{ID}.slice", "container:podman"),
        (f"/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope", "container:podman"),
        (f"/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_{ID}.slice", "container:podman"),
        (f"/system.slice/web.service/libpod-payload-{ID}", "unit:web.service"),
        (f"/system.slice:docker:{ID}", "container:docker"),
        (f"/system.slice:nerdctl:{ID}", "container:containerd"),
        (f"/system.slice/nerdctl-{ID}.scope", "container:containerd"),
        (f"/docker/{ID}/kubelet/kubepods/besteffort/pod{UID}/{ID}", f"pod:{UID}"),
        (
            f"/docker/{ID}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDER}.slice/x-{ID}.scope",
            f"pod:{UID}",
        ),
        (f"/system.slice/k3s.service/kubepods/burstable/pod{UID}/{ID}", f"pod:{UID}"),
        (f"/system.slice/snap.microk8s.daemon-containerd.service/kubepods-pod{UNDER}.slice:x:{ID}", f"pod:{UID}"),
        (f"/machine.slice/systemd-nspawn@n1.service/payload/kubepods/pod{UID}/{ID}", f"pod:{UID}"),
        (f"/kubepods/burstable/pod{UID}/{ID}/system.slice/cron.service", f"pod:{UID}"),
        (f"/kubepods/besteffort/pod{UID}/crio-conmon-{ID}", f"pod:{UID}"),
        (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{TASK}.slice", f"pod:{TASK}"),
        (
            "/machine.slice/systemd-nspawn@web1.service/payload/system.slice/cron.service",
            "unit:systemd-nspawn@.service",
        ),
        (f"/kubepods/burstable/pod{UID}/{ID}", f"pod:{UID}"),
        (f"/kubepods/pod{UID}", f"pod:{UID}"),
        (f"/kubepods/besteffort/pod{TASK}/{ID}", f"pod:{TASK}"),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
            f"pod:{UID}",
        ),
        (f"/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{ID}.scope", f"pod:{UID}"),
        (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDER}.slice", f"pod:{UID}"),
        (f"/system.slice/containerd.service/kubepods-besteffort-pod{UNDER}.slice:cri-containerd:{ID}", f"pod:{UID}"),
        (f"/system.slice/crio-{ID}.scope", "container:cri-o"),
        (f"/system.slice/cri-containerd-{ID}.scope", "container:containerd"),
        (f"/k8s.io/{ID}", "container:containerd"),
        ("/default/web", "container:containerd"),
        (f"/ecs/{UID}/{ID}", "container:ecs"),
        (f"/ecs/{TASK}/{ID}", "container:ecs"),
        (f"/ecs/{TASK}-4079655430", "container:ecs"),
        (f"/ecstasks.slice/ecstasks-{TASK}.slice/docker-{ID}.scope", "container:ecs"),
        ("/lxc.payload.web1/init.scope", "container:lxc"),
        ("/user.slice/user-1000.slice/session-3.scope", "session:1000"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service", "session:1000"),
        ("/zlab/t123", "path:/zlab/t*"),
        (f"/zlab/{UID}", "path:/zlab/*"),
        (f"/batch/{ID}/{TASK}", "path:/batch/*/*"),
        ("/foo/job_20240101-12345/step.3", "path:/foo/job_*/step.*"),
        ("/cafe/facade", "path:/cafe/facade"),
        ("/mypod/pod12", "path:/mypod/pod*"),
        ("/podman/x", "path:/podman/x"),
        ("/my/default/x", "path:/my/default/x"),
        ("/", "path:/"),
    ],
)
def test_known_paths(path: str, maker: str) -> None:
    assert maker_of(path.encode()) == maker
    assert Makers().of(path.encode()) == maker


POD_V1, POD_SLICE = f"pod{UID}", f"kubepods-burstable-pod{UNDER}.slice"
IN_SLICE = f"/kubepods.slice/kubepods-burstable.slice/{POD_SLICE}"
LAYOUTS = {
    # runtime, driver: what it makes, its maker
    ("docker", "cgroupfs"): (f"/docker/{ID}", "container:docker"),
    ("docker", "systemd"): (f"/system.slice/docker-{ID}.scope", "container:docker"),
    ("docker in a pod", "cgroupfs"): (f"/kubepods/burstable/{POD_V1}/{ID}/docker/{ID}", f"pod:{UID}"),
    ("docker below kubelet", "cgroupfs"): (f"/kubepods/burstable/{POD_V1}/{ID}", f"pod:{UID}"),
    ("docker below kubelet", "systemd"): (f"{IN_SLICE}/docker-{ID}.scope", f"pod:{UID}"),
    ("podman", "cgroupfs"): (f"/libpod_parent/libpod-{ID}", "container:podman"),
    ("podman", "systemd"): (f"/machine.slice/libpod-{ID}.scope/container", "container:podman"),
    ("podman pod", "systemd"): (f"/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope", "container:podman"),
    ("containerd", "cgroupfs"): (f"/k8s.io/{ID}", "container:containerd"),
    ("containerd", "systemd"): (f"/system.slice/nerdctl-{ID}.scope", "container:containerd"),
    ("containerd below kubelet", "cgroupfs"): (f"/kubepods/burstable/{POD_V1}/{ID}", f"pod:{UID}"),
    ("containerd below kubelet", "systemd"): (f"{IN_SLICE}/cri-containerd-{ID}.scope", f"pod:{UID}"),
    ("CRI-O", "cgroupfs"): (f"/kubepods/burstable/{POD_V1}/crio-{ID}", f"pod:{UID}"),
    ("CRI-O", "systemd"): (f"{IN_SLICE}/crio-{ID}.scope/container", f"pod:{UID}"),
    ("CRI-O's monitor", "systemd"): (f"{IN_SLICE}/crio-conmon-{ID}.scope", f"pod:{UID}"),
    ("k3s", "cgroupfs"): (f"/kubepods/besteffort/{POD_V1}/{ID}", f"pod:{UID}"),
    ("k3s", "systemd"): (
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDER}.slice",
        f"pod:{UID}",
    ),
    ("k3s without root", "cgroupfs"): (
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/k3s-rootless.scope/kubepods/{POD_V1}/{ID}",
        f"pod:{UID}",
    ),
    ("kind", "cgroupfs"): (f"/docker/{ID}/kubelet/kubepods/burstable/{POD_V1}/{ID}", f"pod:{UID}"),
    ("kind", "systemd"): (
        f"/system.slice/docker-{ID}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDER}.slice",
        f"pod:{UID}",
    ),
    ("nspawn", "machined"): (
        "/machine.slice/machine-web.scope/payload/system.slice/a.service",
        "unit:machine-web.scope",
    ),
    ("nspawn", "service"): (
        "/machine.slice/systemd-nspawn@web.service/payload/system.slice/a.service",
        "unit:systemd-nspawn@.service",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=" ".join)
def test_every_runtime_with_both_drivers(layout: tuple[str, str]) -> None:
    path, maker = LAYOUTS[layout]
    assert maker_of(path.encode()) == maker


def test_hostile_names_stay_printable_and_are_not_taken_for_units() -> None:
    assert maker_of(b"/a\nb.service") == r"path:/a\x0ab.service"
    assert maker_of(b"/x\xff/<b>") == r"path:/x\xff/<b>"
    assert maker_of(rb"/dev-disk\x2d.mount") == r"unit:dev-disk\\x2d.mount"


@given(
    st.lists(st.binary(min_size=1, max_size=12).filter(lambda name: b"/" not in name and b"\0" not in name), max_size=4)
)
def test_any_path_has_a_maker_and_remembering_changes_nothing(names: list[bytes]) -> None:
    path = b"/" + b"/".join(names)
    makers = Makers()
    assert maker_of(path).isprintable()
    assert [makers.of(path), makers.of(path)] == [maker_of(path)] * 2


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_siblings_that_differ_in_a_number_are_one_maker(one: int, other: int) -> None:
    makers = Makers()
    assert makers.of(b"/batch/run-%d" % one) == makers.of(b"/batch/run-%d" % other) == "path:/batch/run-*"


def test_folding_does_not_cross_a_slash() -> None:
    assert fold_path(b"/12/34/abcdef12") == b"/*/*/*"


@pytest.mark.parametrize(
    ("path", "maker", "instance"),
    [
        ("/system.slice/system-job.slice/job@17.service", "unit:job@.service", "job@17.service"),
        ("/system.slice/run-u4711.service", "unit:run-u*.service", "run-u4711.service"),
        ("/system.slice/run-r0a1b2c3d4e5f6071.scope", "unit:run-r*.scope", "run-r0a1b2c3d4e5f6071.scope"),
        ("/system.slice/job-12.scope", "unit:job-*.scope", "job-12.scope"),
        ("/system.slice/ecs.service", "unit:ecs.service", None),
        ("/batch/job-12", "path:/batch/job-*", None),
    ],
)  # fmt: skip
def test_what_is_made_anew_each_time_is_folded_to_what_can_be_stopped_and_still_named(
    path: str, maker: str, instance: str | None
) -> None:
    assert maker_of(path.encode()) == maker
    assert instance_of(path.encode()) == instance
