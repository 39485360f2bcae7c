"""How many processors a process may use, from made files of Linux's control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard._processors import available, quota
from regard._threads import two_threads

V1, V2 = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup"
MOUNT_1 = "33 32 0:29 {part} /{place} rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct"
MOUNT_2 = "31 23 0:28 {part} /{place} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
OTHER = "36 32 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"


def system(root: Path, groups: str, mounts: list[str], **files: str) -> str:
    """A folder with the files of /proc, and others whose names have ``__`` for a slash and ``_`` for a point."""
    own = {"proc/self/cgroup": groups, "proc/self/mountinfo": "\n".join([OTHER, *mounts])}
    for name, text in (own | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return f"{root}/"


def version_2(root: Path, group: str, part: str = "/", **limits: str) -> str:
    files = {f"{V2}{folder}/cpu.max": limit for folder, limit in limits.items()}
    return system(root, f"0::{group}", [MOUNT_2.format(part=part, place=V2)], **files)


def version_1(root: Path, group: str, part: str = "/", **limits: str) -> str:
    files = {}
    for folder, limit in limits.items():
        files[f"{V1}{folder}/cpu.cfs_quota_us"], files[f"{V1}{folder}/cpu.cfs_period_us"] = limit.split()
    groups = f"9:memory:/elsewhere\n4:cpu,cpuacct:{group}\n0::/unified"
    return system(root, groups, [MOUNT_1.format(part=part, place=V1)], **files)


@pytest.mark.parametrize(
    ("limit", "processors"),
    [
        ("100000 100000", 1),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("1600000 100000", 16),
        ("3000 1000", 3),
        ("max 100000", None),
        ("-1 100000", None),
        ("", None),
        ("x y", None),
        ("100000", None),
        ("100000 0", None),
        ("9" * 5000 + " 1", None),
    ],
)
def test_the_quota_of_a_group_rounded_up(limit: str, processors: int | None, tmp_path: Path) -> None:
    assert quota(version_2(tmp_path / "two", "/", **{"": limit})) == processors
    if limit.count(" ") == 1:
        assert quota(version_1(tmp_path / "one", "/", **{"": limit})) == processors


@pytest.mark.parametrize("version", [version_1, version_2])
def test_the_groups_above_have_quotas_too(version: type, tmp_path: Path) -> None:
    limits = {"/pod/app": "800000 100000", "/pod": "300000 100000", "/other": "100000 100000"}
    if version is version_2:
        limits[""] = "max 100000"
    assert quota(version(tmp_path, "/pod/app", **limits)) == 3


@pytest.mark.parametrize("version", [version_1, version_2])
@pytest.mark.parametrize(
    ("group", "part"),
    [
        ("/docker/abc", "/docker/abc"),  # the container sees its own group as the mount
        ("/docker/abc", "/"),  # and where the complete path is not below it
        ("/", "/"),  # a namespace hides where the group is
        ("/../../other", "/"),
        ("/docker/abcd", "/docker/abc"),
    ],
)
def test_a_container_sees_its_group_at_the_mount(
    version: type, group: str, part: str, tmp_path: Path
) -> None:
    assert quota(version(tmp_path, group, part, **{"": "200000 100000"})) == 2


def test_both_versions_at_once_and_the_smaller_quota(tmp_path: Path) -> None:
    mounts = [MOUNT_1.format(part="/", place=V1), MOUNT_2.format(part="/", place="sys/fs/cgroup/unified")]
    files = {
        f"{V1}/a/cpu.cfs_quota_us": "400000",
        f"{V1}/a/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/unified/b/cpu.max": "200000 100000",
    }
    assert quota(system(tmp_path, "2:cpu:/a\n0::/b", mounts, **files)) == 2


@pytest.mark.parametrize(
    "damage", ["", "no line of a mount", "1 - cgroup2", "1 2 - cgroup cpu", "1 2 0:3 / /x rw - cgroup2"]
)
def test_files_that_cannot_be_read_are_no_quota(damage: str, tmp_path: Path) -> None:
    assert quota(f"{tmp_path}/nothing/") is None
    root = system(tmp_path / "damaged", damage, [damage, "\udcff".encode("utf-8", "replace").decode()])
    assert quota(root) is None
    (tmp_path / "folder" / V2 / "cpu.max").mkdir(parents=True)
    assert quota(version_2(tmp_path / "folder", "/")) is None
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        root = version_2(tmp_path / "secret", "/", **{"": "100000 100000"})
        (tmp_path / "secret" / V2 / "cpu.max").chmod(0)
        assert quota(root) is None


def test_no_more_processors_than_the_process_runs_on(tmp_path: Path) -> None:
    runs_on = available(f"{tmp_path}/nothing/")
    assert available(version_2(tmp_path / "many", "/", **{"": "99900000 100000"})) == runs_on
    assert available(version_2(tmp_path / "one", "/", **{"": "100000 100000"})) == 1


@pytest.mark.threads
def test_one_processor_has_no_pair_of_threads() -> None:
    for processors, started in ((1, 0), (2, 2)):
        with two_threads(processors) as threads:
            assert sum(len(worker._threads) for worker in threads) == started
            assert [worker.submit(len, "ab").result() for worker in threads] == [2, 2]
