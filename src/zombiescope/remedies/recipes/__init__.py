# SPDX-License-Identifier: Apache-2.0
"""A file a kind of what holds zombies, or makes them, and in it a function a remedy; the list is in `catalogue.py`."""
