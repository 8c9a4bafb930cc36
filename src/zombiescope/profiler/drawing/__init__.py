# SPDX-License-Identifier: Apache-2.0
"""What was found, as text, JSON, SVG and PNG. Pure."""
