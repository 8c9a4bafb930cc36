# SPDX-License-Identifier: Apache-2.0
"""One remedy a file; the list is in `catalogue.py`."""
