# SPDX-License-Identifier: Apache-2.0
"""The story, one verb a file: open a machine, observe it, put it in numbers, judge."""
