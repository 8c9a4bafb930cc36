# SPDX-License-Identifier: Apache-2.0
"""What one would do without an archive: a folder of pprof files, ZONE/NODE.pb, and a program that reads them all.

pprof_folder.py FOLDER WHERE AGAINST: the functions that rose on the nodes of one zone, with what they call or by
themselves, by the same test over nodes; one JSON line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from zombiescope.analysis.exact_test import compare_groups
from zombiescope.profiler.archive.counting import LEAST_SHARE
from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.stacks.across_nodes import Counted, of_nodes
from zombiescope.profiler.stacks.branches import Branches, called_again, functions, merged_keys
from zombiescope.profiler.stacks.call_tree import CallTree


def counted(path: Path) -> Counted:
    capture = read_capture(bytes(path), Choices())
    keys, number = merged_keys([*capture.frame_names, "all"], [*capture.frame_files, ""])
    function = number[np.minimum(capture.tree.frame, len(number) - 1)]
    again = called_again(CallTree(function.astype(np.uint32), capture.tree.size))
    weight = np.ones(len(capture)) if capture.weight is None else capture.weight
    counts = np.bincount(capture.node, weights=weight, minlength=len(function)).astype(np.int64)
    rows = functions(Branches(capture.tree.size.astype(np.int64), again, function, keys), counts, LEAST_SHARE)
    return Counted(f"{path.parent.name} {path.stem}", int(counts.sum()), rows)


if __name__ == "__main__":
    folder, where, against = Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
    shares = of_nodes(
        (counted(path) for zone in (where, *against) for path in sorted((folder / zone).iterdir())), 0.0005
    )
    mine = [row for row, node in enumerate(shares.nodes) if node.startswith(f"{where} ")]
    others = [row for row, node in enumerate(shares.nodes) if not node.startswith(f"{where} ")]
    every = [*shares.total.T.tolist(), *shares.own.T.tolist()]
    columns = [([column[row] for row in mine], [column[row] for row in others]) for column in every]
    shifts = compare_groups(columns, len(mine), len(others)).shifts
    rises = zip([*shares.keys, *shares.keys], shifts, strict=True)
    found = sorted(((shift.mean - shift.other, key) for key, shift in rises if shift.is_found), reverse=True)
    names = list(dict.fromkeys(key[0] for _, key in found))
    print(json.dumps({"found": names, "samples": int(shares.samples.sum())}))
