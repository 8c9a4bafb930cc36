# SPDX-License-Identifier: Apache-2.0
"""Judgement with evidence. Core."""
