# SPDX-License-Identifier: Apache-2.0
"""Pages over HTTP: loopback, read-only, nothing from outside."""
