# SPDX-License-Identifier: Apache-2.0
"""What `zombiescope lab` does beside making single zombies: the incident, and how a run ends."""
