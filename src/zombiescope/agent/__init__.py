# SPDX-License-Identifier: Apache-2.0
"""The node agent: looks at its own pace, remembers, serves what it knows. Entry point."""
