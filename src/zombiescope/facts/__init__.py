# SPDX-License-Identifier: Apache-2.0
"""What was observed: frozen records, units in the names. Core: no clock, file, process or network."""
