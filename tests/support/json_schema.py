# SPDX-License-Identifier: Apache-2.0
"""The part of JSON Schema that the gateway's document uses, read strictly.

An object must not have a key that its schema leaves out (readers of the document must allow that: keys are added), and what
the schema says in a word that is not known here is an error. `used` collects the names of the components and the properties
that answers had, so that a test finds what is described and never answered.
"""
import re

ANNOTATIONS = {"deprecated", "description", "examples"}
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None),
}


def is_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


class Schemas:
    def __init__(self, components):
        self.components = components
        self.used = set()

    def problems(self, value, schema, at="$", owner=""):
        """What is wrong with a value: a list of sentences."""
        unknown = set(schema) - ANNOTATIONS - {"$ref", "anyOf", "type", "properties", "required", "items", "enum", "pattern", "minimum", "maxLength",
                                               "minItems", "maxItems"}
        assert not unknown, f"{at}: this test does not know {unknown}"
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/components/schemas/")
            self.used.add(name)
            return self.problems(value, self.components[name], at, name)
        if "anyOf" in schema:
            return self.any_of(value, schema["anyOf"], at, owner)
        types = schema.get("type", list(TYPES))
        types = types if isinstance(types, list) else [types]
        if not any(is_type(value, name) for name in types):
            return [f"{at} is {value!r:.60}, not {types}"]
        found = []
        if "enum" in schema and value not in schema["enum"]:
            found.append(f"{at} is {value!r}, none of {schema['enum']}")
        if "minimum" in schema and value is not None and value < schema["minimum"]:
            found.append(f"{at} is {value}, below {schema['minimum']}")
        if "maxLength" in schema and isinstance(value, str) and len(value) > schema["maxLength"]:
            found.append(f"{at} has {len(value)} characters")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            found.append(f"{at} is {value!r:.60}, not like {schema['pattern']}")
        if isinstance(value, list):
            found += self.array(value, schema, at, owner)
        if isinstance(value, dict):
            found += self.object(value, schema, at, owner)
        return found

    def any_of(self, value, choices, at, owner):
        shortest = None
        for choice in choices:
            before = set(self.used)
            found = self.problems(value, choice, at, owner)
            if not found:
                return []
            self.used = before
            if shortest is None or len(found) < len(shortest):
                shortest = found
        return shortest

    def array(self, value, schema, at, owner):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return [f"{at} has {len(value)} items"]
        return [problem for number, item in enumerate(value)
                for problem in self.problems(item, schema.get("items", {}), f"{at}[{number}]", f"{owner}[]")]

    def object(self, value, schema, at, owner):
        if "properties" not in schema:
            return []
        known = schema["properties"]
        found = [f"{at} lacks {key}" for key in schema.get("required", []) if key not in value]
        found += [f"{at}.{key} is not described" for key in value if key not in known]
        for key in set(value) & set(known):
            self.used.add(f"{owner}.{key}")
            found += self.problems(value[key], known[key], f"{at}.{key}", f"{owner}.{key}")
        return found

    def described(self):
        """The names of all components and properties."""
        def walk(schema, owner):
            for key, inner in schema.get("properties", {}).items():
                yield f"{owner}.{key}"
                yield from walk(inner, f"{owner}.{key}")
            if "items" in schema:
                yield from walk(schema["items"], f"{owner}[]")

        for name, schema in self.components.items():
            yield name
            yield from walk(schema, name)
