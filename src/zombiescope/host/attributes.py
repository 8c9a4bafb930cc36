# SPDX-License-Identifier: Apache-2.0
"""Extended attributes of a file or link: access lists, labels, capabilities and what people keep there."""

from __future__ import annotations

import errno
import os

Attribute = tuple[str, bytes]
_THE_KERNELS = {"security.ima", "security.evm"}
"""Sums of a file's content that the kernel keeps itself."""
_INHERITED = "system.posix_acl_access"
"""A new file may have got one from its folder."""
_NONE = (errno.ENOTSUP, errno.ENODATA, errno.ENOSYS)


def read_attributes(place: bytes | int) -> tuple[Attribute, ...]:
    """By name. A link is not followed; `place` may be a descriptor."""
    follow = isinstance(place, int)
    try:
        names = set(os.listxattr(place, follow_symlinks=follow)) - _THE_KERNELS
        return tuple((name, os.getxattr(place, name, follow_symlinks=follow)) for name in sorted(names))
    except OSError as error:
        if error.errno not in _NONE:
            raise
        return ()


def write_attributes(place: bytes | int, wanted: tuple[Attribute, ...]) -> None:
    """Raises OSError where one cannot be set: what would lose an access list or a label is not placed."""
    follow = isinstance(place, int)
    has = dict(read_attributes(place))
    for name, value in wanted:
        if has.get(name) != value:
            os.setxattr(place, name, value, follow_symlinks=follow)
    if _INHERITED in has and _INHERITED not in dict(wanted):
        os.removexattr(place, _INHERITED, follow_symlinks=follow)
