# SPDX-License-Identifier: Apache-2.0
"""Captures of many nodes as Parquet files, in a folder or an S3 bucket, and questions over all of them."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.profiler.archive import asking, catalogue, counting, places, schema
else:
    __getattr__ = late(__name__)
