# SPDX-License-Identifier: Apache-2.0
"""What `zombiescope export` can print: one kind a file."""
