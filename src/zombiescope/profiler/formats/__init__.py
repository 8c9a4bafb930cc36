# SPDX-License-Identifier: Apache-2.0
"""Captures as bytes: our own file, and other tools' profiles by their encoding. Pure."""
