# SPDX-License-Identifier: Apache-2.0
"""Obey a plan: journal first, then the change, one step at a time; undo. Edge."""
