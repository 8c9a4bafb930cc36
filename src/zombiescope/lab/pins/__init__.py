# SPDX-License-Identifier: Apache-2.0
"""What can keep a zombie, one kind a class."""
