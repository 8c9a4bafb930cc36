# SPDX-License-Identifier: Apache-2.0
"""Stack samples with time and core: reading captures, the call tree, heat maps, flame graphs, what changed. Needs numpy."""
