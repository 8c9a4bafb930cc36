# SPDX-License-Identifier: Apache-2.0
"""Mangled names of C++ as trees, continued: types, arguments of templates, what is referred to again, and expressions."""

from zombiescope.profiler.perf.cpp_grammar import NOTHING, OPERATORS, NameReader, Node, NotMangledError, Told

BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "g": "__float128", "z": "...",
}  # fmt: skip
_BUILTIN_D = {
    "d": "decimal64", "e": "decimal128", "f": "decimal32", "h": "half", "i": "char32_t", "s": "char16_t", "u": "char8_t",
    "a": "auto", "c": "decltype(auto)", "n": "decltype(nullptr)",
}  # fmt: skip
_POINTERS = {"P": "*", "R": "&", "O": "&&", "C": " _Complex", "G": " _Imaginary"}
_ELABORATED = ("Ts", "Tu", "Te")
_STD = {
    "a": ("std::allocator", "", "allocator"),
    "b": ("std::basic_string", "", "basic_string"),
    "s": ("std::string", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "basic_string"),
    "i": ("std::istream", "std::basic_istream<char, std::char_traits<char> >", "basic_istream"),
    "o": ("std::ostream", "std::basic_ostream<char, std::char_traits<char> >", "basic_ostream"),
    "d": ("std::iostream", "std::basic_iostream<char, std::char_traits<char> >", "basic_iostream"),
}
"""As it is written, as a class whose constructor or destructor is named, and what that is called."""
_LITERAL_ENDS = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
_UNARY = ("ad", "co", "de", "mm", "ng", "nt", "pp", "ps", "sz", "az", "nx", "aw")
_CASTS = {"sc": "static_cast", "dc": "dynamic_cast", "rc": "reinterpret_cast", "cc": "const_cast"}


class TypeReader(NameReader):
    def type(self) -> Node:
        return self.bounded(self._type)

    def _type(self) -> Node:
        first = self.look()
        if first in BUILTIN and first:
            self.at += 1
            return Node("name", BUILTIN[first])
        if first == "D":
            found = self._of_d()
            if found.kind == "name":
                return found
        elif first == "S" and self.look(1) != "t":
            found = self.substitution()
            if self.look() != "I" or not self.takes_arguments:
                return found
            found = Node("template", "", (found, self.arguments()))
        else:
            found = self._compound(first)
        self.known.append(found)
        return found

    def _compound(self, first: str) -> Node:
        if first in ("r", "V", "K"):
            return self._qualified()
        if first in _POINTERS and first:
            self.at += 1
            return Node("pointer" if first in "PRO" else "suffixed", _POINTERS[first], (self.type(),))
        if first in ("F", "A", "M"):
            return {"F": self._function, "A": self._array, "M": self._member}[first]()
        if self.took("U"):
            called = self._perhaps_template(self.source_name())
            return Node("vendor", "", (self.type(), called))
        if self.took("u"):
            return self.source_name()
        if first == "T" and self.pair() not in _ELABORATED:
            found = self.parameter()
            if self.look() != "I" or not self.takes_arguments:
                return found
            self.known.append(found)
            return Node("template", "", (found, self.arguments()))
        if self.pair() in _ELABORATED:
            self.at += 2
        return self.name(Told())

    def _qualified(self) -> Node:
        begin = self.at
        qualifiers = self.qualifiers()
        if self.look() == "F" or self.pair() in ("Do", "DO", "Dw", "Dx"):
            self.at = begin
            return self._function()
        return Node("suffixed", qualifiers, (self.type(),))

    def _of_d(self) -> Node:
        second = self.look(1)
        if second in _BUILTIN_D and second:
            self.at += 2
            return Node("name", _BUILTIN_D[second])
        if second in ("t", "T"):
            return self.decltype()
        if self.took("Dp"):
            return Node("expansion", "", (self.type(),))
        if self.took("Dv"):
            count = self.expression() if self.took("_") else self._dimension()
            self.want("_")
            return Node("vector", "", (self.type(), count))
        if self.took("DF"):
            bits = self.number()
            self.took("x")
            self.took("_")
            return Node("name", f"_Float{bits}")
        if second in ("o", "O", "w", "x"):
            return self._function()
        raise NotMangledError(f"D{second}")

    def _dimension(self) -> Node:
        if self.look().isdigit():
            return Node("name", str(self.number()))
        return NOTHING if self.look() == "_" else self.expression()

    def _function(self) -> Node:
        qualifiers = self.qualifiers()
        if self.took("Do"):
            qualifiers += " noexcept"
        self.took("Dx")
        self.want("F")
        self.took("Y")
        gives = self.type()
        takes = []
        while not self.took("E"):
            if self.took("RE"):
                qualifiers += " &"
                break
            if self.took("OE"):
                qualifiers += " &&"
                break
            takes.append(self.type())
        return Node("function", qualifiers, (gives, Node("list", "", tuple(takes))))

    def _array(self) -> Node:
        self.want("A")
        count = self._dimension()
        self.want("_")
        return Node("array", "", (self.type(), count))

    def _member(self) -> Node:
        self.want("M")
        return Node("member", "", (self.type(), self.type()))

    def decltype(self) -> Node:
        self.at += 2
        inner = self.expression()
        self.want("E")
        return Node("decltype", "", (inner,))

    def parameter(self) -> Node:
        self.want("T")
        if self.took("L"):
            raise NotMangledError("a parameter of an outer template")
        return Node("parameter", str(0 if self.took("_") else self._after()))

    def _after(self) -> int:
        number = self.number() + 1
        self.want("_")
        return number

    def arguments(self) -> Node:
        self.want("I")
        takes, self.takes_arguments = self.takes_arguments, True
        found = self.until_end(self._argument)
        self.takes_arguments = takes
        return Node("list", "", found)

    def _argument(self) -> Node:
        if self.took("X"):
            found = self.expression()
            self.want("E")
            return found
        if self.look() == "L":
            return self.literal()
        if self.took("J") or self.took("I"):
            return Node("pack", "", self.until_end(self._argument))
        return self.type()

    def substitution(self) -> Node:
        self.want("S")
        if self.look() in _STD and self.look():
            return self._of_std()
        number = self.sequence()
        if number >= len(self.known):
            raise NotMangledError("it refers to nothing")
        return self.known[number]

    def _of_std(self) -> Node:
        plain, whole, called = _STD[self.look()]
        self.at += 1
        node = Node("standard", whole if whole and self.look() in ("C", "D") else plain, (Node("name", called),))
        if self.look() != "B":
            return node
        while self.took("B"):
            node = Node("tagged", self.source_name().text, (node,))
        self.known.append(node)
        return node

    def literal(self) -> Node:
        self.want("L")
        if self.took("_Z") or self.took("Z"):
            node = self.encoding()
            self.want("E")
            return node
        kind = self.look()
        of = self.type()
        end = self.text.find("E", self.at)
        if end < 0:
            raise NotMangledError("a value without an end")
        value = self.text[self.at : end]
        self.at = end + 1
        plain = f"-{value[1:]}" if value.startswith("n") else value
        if kind == "b" and value in ("0", "1"):
            return Node("name", ("false", "true")[int(value)])
        if kind in _LITERAL_ENDS:
            return Node("name", plain + _LITERAL_ENDS[kind])
        return Node("value", f"[{value}]" if kind in ("f", "d", "e", "g") else plain, (of,))

    def expression(self) -> Node:
        return self.bounded(self._expression)

    def _expression(self) -> Node:
        first, pair = self.look(), self.pair()
        if first == "L":
            return self.literal()
        if first == "T":
            return self.parameter()
        if first == "f" and self.look(1) in ("p", "L"):
            return self._function_parameter()
        if pair == "sr":
            return self._unresolved()
        if first.isdigit() or pair == "on":
            self.took("on")
            return self._named()
        if pair in ("st", "at", "sZ", "sp", "il", "tl", "cl", "cv", *_CASTS):
            return self._particular(pair)
        return self._operation(pair)

    def _named(self) -> Node:
        return self._perhaps_template(self.source_name() if self.look().isdigit() else self._operator(Told()))

    def _perhaps_template(self, name: Node) -> Node:
        return Node("template", "", (name, self.arguments())) if self.look() == "I" else name

    def _unresolved(self) -> Node:
        self.want("sr")
        parts = self.until_end(self._named) if self.look().isdigit() else (self.type(),)
        if not parts:
            raise NotMangledError("a name of nothing")
        found = parts[0]
        for part in (*parts[1:], self._named()):
            name, *arguments = part.parts if part.kind == "template" else (part,)
            found = Node("qualified", "", (found, name))
            found = Node("template", "", (found, *arguments)) if arguments else found
        return found

    def _function_parameter(self) -> Node:
        self.at += 1
        if self.took("L"):
            self.number()
        self.want("p")
        if self.took("T"):
            return Node("name", "this")
        self.qualifiers()
        return Node("name", f"{{parm#{1 if self.took('_') else self._after() + 1}}}")

    def _particular(self, pair: str) -> Node:
        self.at += 2
        if pair in ("st", "at"):
            return Node("of type", OPERATORS[pair], (self.type(),))
        if pair == "sZ":
            return Node("count", "", (self.expression(),))
        if pair == "sp":
            return Node("expansion", "", (self.expression(),))
        if pair in ("il", "tl"):
            kind = self.type() if pair == "tl" else NOTHING
            return Node("braces", "", (kind, Node("list", "", self.until_end(self.expression))))
        if pair == "cl":
            return Node("call", "", (self.expression(), Node("list", "", self.until_end(self.expression))))
        if pair == "cv":
            kind = self.type()
            given = self.until_end(self.expression) if self.took("_") else (self.expression(),)
            return Node("cast", "", (kind, Node("list", "", given)))
        return Node("named cast", _CASTS[pair], (self.type(), self.expression()))

    def _operation(self, pair: str) -> Node:
        if pair not in OPERATORS or pair in ("nw", "na", "dl", "da"):
            raise NotMangledError(pair)
        self.at += 2
        if pair in ("pp", "mm"):
            self.took("_")
        if pair in _UNARY:
            return Node("unary", pair, (self.expression(),))
        if pair == "qu":
            return Node("choice", "", (self.expression(), self.expression(), self.expression()))
        left = self.expression()
        right = self._named() if pair in ("dt", "pt") and self.look().isdigit() else self.expression()
        return Node("binary", pair, (left, right))
