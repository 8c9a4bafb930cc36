# SPDX-License-Identifier: Apache-2.0
"""This side of the machines. Not carried into them: the stories are collected there and only there."""

collect_ignore = ["stories"]
