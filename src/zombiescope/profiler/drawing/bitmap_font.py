# SPDX-License-Identifier: Apache-2.0
"""Letters for PNG pictures, where no image library draws them: the printable ASCII of X11's `6x13`, which is public domain."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from zombiescope.profiler.stacks.arrays import Flags

WIDE, HIGH, BASELINE = 6, 13, 11
_FIRST, _LAST, _UNKNOWN = 32, 126, "?"
# 95 glyphs of 13 rows, a byte each, the leftmost pixel in its highest bit.
_GLYPHS = (
    "c-m!Dt$M>S3=A|h95fsZ95f8nBLof#1{xX$1_m1L5e5qf_ZWeO)32Lt>X$UqN$Sa`beeuyQkxPx0C0l<I(;;fw)4c-*Gtlt1~Fx5yFmFo^Lgy="
    ")@_u>lrmdNk&@`nMlnun*wURtztyqLlE&7jKYWohL!eeUmm(pkY#=StddfgjhqVUEE8=u|#1JY9xi|ytJw`!F`FJ>jwUmq6q1EUZ)~%u={IGeA"
    "(Nb>qts}_K=M=+p9Ggg@j6R8)3gjHEeUxns*Xd&CT9yUrx|}GPGGJtJgytz1UH$HqQFGV`)jCUSv_%l)O|**ps%iWAdG4B4%(^1qt$Bm`c(isL"
    ")~%{3H+r}+5NjA5@z%_3=+l!grV$<8L~4L1(#Sv^3IiA&cDzBibz#<+-B9MC1&uK<8;owK2S5Ec>X71}7>2DL?{+#oQoS6hu1^S*#49t9Zpggk"
    "d}Uj)u~>{1UQ0h-T8(w+GsS5Zfmk6*Q-K&*?=q5o@#**=w{9kcr@2JpY`WUPYFs&~S)<h`>18&Ao9P*-1CWN}`mjTqjB}L|e}lTer!P$ZlW#B2"
    "zbBDVg96K+(Cz~K07eiV5C"
)


def letters(text: str) -> Flags:
    """[row, column], set where there is ink."""
    rows = np.frombuffer(zlib.decompress(base64.b85decode(_GLYPHS)), np.uint8).reshape(-1, HIGH)
    numbers = [ord(each if _FIRST <= ord(each) <= _LAST else _UNKNOWN) - _FIRST for each in text]
    glyphs = np.unpackbits(rows[numbers], axis=1).reshape(len(numbers), HIGH, 8)[:, :, :WIDE]
    ink: Flags = glyphs.transpose(1, 0, 2).reshape(HIGH, -1).astype(bool)
    return ink
