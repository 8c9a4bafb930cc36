# SPDX-License-Identifier: Apache-2.0
"""The profiler, with a border of its own: it uses names, errors, gaps and the few doors named in pyproject.toml, and no more."""
