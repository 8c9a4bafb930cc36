# SPDX-License-Identifier: Apache-2.0
"""Many nodes: where their numbers come from. A metrics server, documents, or a table; never a node itself."""
