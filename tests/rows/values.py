"""Strategies for what users put into rows, with the values on which implementations differ."""

from decimal import Decimal

from hypothesis import strategies as st

from tests.rows.where_model import COMPARISONS

UUIDS = ["018f0000-0000-7000-8000-000000000001", "ffffffff-ffff-4fff-bfff-ffffffffffff"]
DATES = [
    "2020-01-01",
    "2020-01-01T00:00:00Z",
    "2020-01-01T09:00:00+09:00",
    "2019-12-31T18:30:00.5-05:30",
    "2020-01-01t00:00:00.000001z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "2016-12-31T23:59:60Z",
    "2017-01-01 00:00:00Z",
]
NUMBERS = ["1.10", "1.1", "1.0", "0.1", "-2.5", "1e-300", "-1e308", "9007199254740993.5", "-0.0", "1e2"]
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "é",
    "e\u0301",
    "한국",
    "😀",
    "\uffff",
    "a%",
    "a_b",
    "\\",
    '"',
    "'",
    "$eq",
    "1",
    "true",
]

texts = st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
ints = st.sampled_from([0, 1, -1, 2, 10, 2**53 + 1, 2**63 - 1, -(2**63)])
numbers = ints | st.sampled_from([*map(Decimal, NUMBERS), 2**63, 123456789012345678901234567890])
dates = st.sampled_from(DATES)
uuids = st.sampled_from(UUIDS)
scalars = st.none() | st.booleans() | texts | numbers
keys = st.sampled_from(["k", "j", "a", "", "0", "x'y", 'x"y', "$gt"])
jsons = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
objects = st.dictionaries(keys, jsons, max_size=3)
arrays = st.lists(jsons, max_size=3)

OF_TYPE = {
    "string": texts,
    "number": numbers,
    "boolean": st.booleans(),
    "date": dates,
    "object": objects,
    "array": arrays,
    "uuid": uuids,
    "int": ints,
}
SCHEMA = {f"{type_}_{number}": type_ for type_ in OF_TYPE for number in (1, 2)}
typed_rows = st.fixed_dictionaries({}, optional={name: st.none() | OF_TYPE[type_] for name, type_ in SCHEMA.items()})
free_rows = st.dictionaries(st.sampled_from(["a", "b", "o", "item", "a.b", "id"]), jsons, max_size=4)

_operands = scalars | dates | uuids | st.sampled_from(UUIDS).map(str.upper) | jsons
_plain = _operands.filter(lambda value: not (isinstance(value, dict) and any(key.startswith("$") for key in value)))
_ordered = _operands.filter(lambda value: value is not None and not isinstance(value, (dict, list)))
_ANY = {
    "$eq": _operands,
    "$ne": _operands,
    "$in": st.lists(_operands, max_size=4),
    "$nin": st.lists(_operands, max_size=4),
    "$isNull": st.booleans(),
    # Both bounds hold: often they are one value.
    "$between": st.tuples(_ordered, _ordered).map(list) | _ordered.map(lambda one: [one, one]),
    **dict.fromkeys(COMPARISONS, _ordered),
}
# Of few other letters Python and PostgreSQL know different lower ones.
_cased = st.sampled_from(TEXTS) | st.text("aAbB%_\\éÉ ％", max_size=3)
_TEXT = dict.fromkeys(["$contains", "$startsWith", "$endsWith"], texts)
_TEXT |= dict.fromkeys(["$ieq", "$icontains", "$istartsWith"], _cased)
_ARRAY = {"$arrayContains": _operands, "$arrayContainsAny": st.lists(_operands, max_size=3)}

_FOR_TYPE = {
    "string": _ANY | _TEXT,
    "date": _ANY | _TEXT,
    "uuid": _ANY | _TEXT,
    "json": _ANY | _TEXT | _ARRAY,
    "column": _ANY | _ARRAY,
}


def _conditions(type_: str, own: st.SearchStrategy) -> st.SearchStrategy:
    """Bare values and operators for a field; `own` are values of its type, which an operand should often be."""
    allowed = {
        name: st.one_of(own, strategy) if name in {"$eq", "$ne", *COMPARISONS} else strategy
        for name, strategy in _FOR_TYPE.get(type_, _ANY).items()
    }
    allowed["$between"] |= own.map(lambda one: [one, one]) | st.tuples(own, own).map(list)
    one = st.sampled_from(sorted(allowed)).flatmap(lambda name: st.fixed_dictionaries({name: allowed[name]}))
    several = st.lists(one, min_size=1, max_size=2).map(lambda parts: {k: v for part in parts for k, v in part.items()})
    # What holds neither objects nor lists is not compared with them: an operator was meant.
    plain = _plain if type_ in {"json", "column"} else _plain.filter(lambda value: not isinstance(value, (dict, list)))
    return plain | several | st.builds(lambda inner: {"$not": inner}, several)


def wheres(fields: dict[str, tuple[str, st.SearchStrategy]]) -> st.SearchStrategy:
    """Conditions on fields, given by name with their type and values of it, nested a few levels."""
    leaf = st.sampled_from(sorted(fields)).flatmap(
        lambda name: st.fixed_dictionaries({name: _conditions(*fields[name])})
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.fixed_dictionaries({"$or": st.lists(inner, max_size=3)}),
            st.fixed_dictionaries({"$and": st.lists(inner, max_size=3)}),
            st.fixed_dictionaries({"$not": inner}),
            st.builds(lambda left, right: {**left, **right}, inner, inner),
        ),
        max_leaves=5,
    )


_scalars_own = {"id": ("uuid", uuids), "created_at": ("moment", dates)}
_paths = ["object_1.k", "object_1.k.j", "object_1.a.0", "object_2.x'y", "object_2."]
_ORDERED_TYPES = {name: values for name, values in OF_TYPE.items() if name not in {"object", "array"}}
TYPED_FIELDS = {
    **{name: (type_, _ORDERED_TYPES[type_]) for name, type_ in SCHEMA.items() if type_ in _ORDERED_TYPES},
    **{name: ("column", _ordered) for name, type_ in SCHEMA.items() if type_ not in _ORDERED_TYPES},
    **dict.fromkeys(_paths, ("json", _ordered)),
    **_scalars_own,
}
FREE_FIELDS = dict.fromkeys(["a", "b", "o", "item", "o.k", "o.k.j", "a.0", "a.-1", "none", ""], ("json", _ordered))
FREE_FIELDS |= _scalars_own
