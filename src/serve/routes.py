#!/usr/bin/env python3
"""Makes the API's table of routes and its description from routes.json: routes.py ROUTES.json SCHEMA.sql OUT.c OUT.json

A route: the path ({x}: a part as it is, {x:id}: a task's id, {x:one}: an array of it), the text of src/db/sql that answers, what
that answers (X: an object, X[]: an array, page of X: an array with a cursor, json X: JSON that the text makes itself), and its
parameters in the order of the text's: the path's, then those of the query or the body, then the header traceparent (traced).  In the query: x may be left out, x! may
not, x=d has the default d, x=d..m is a whole number up to m, x@ is a time or how long ago, x& is one of the words of x.
A schema: members with their types; ? may be null, ~ may be left out.  Of SCHEMA.sql, the table of tasks and its comments: what a
Definition may have.
"""
import json
import pathlib
import re
import sys

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
TYPES = {"int": "integer", "num": "number", "str": "string", "bool": "boolean", "object": "object", "array": "array"}
PARTS = {"": "API_PART", "id": "API_ID", "one": "API_ONE"}
COLUMNS = {"boolean": "boolean", "smallint": "integer", "integer": "integer", "bigint": "integer", "text": "string", "interval": "string",
           "timestamptz": "string", "jsonb": "object"}


class Query:
    def __init__(self, spec):
        self.name, self.needed, self.time, self.word, self.default, self.most = re.fullmatch(r"(\w+)(!?)(@?)(&?)(?:=(.+?)(?:\.\.(\d+))?)?", spec).groups()

    def row(self):
        kind = "API_COUNT" if self.most else "API_TIME" if self.time else "API_WORD" if self.word else "API_QUERY"
        return param(kind, name=self.name, fallback=self.default, number=self.most, needed=bool(self.needed),
                     words=self.word and f"words_{self.name}")

    def describe(self, says, words):
        schema = {"type": "integer", "minimum": 1, "maximum": int(self.most)} if self.most else {"type": "string"}
        if self.word:
            schema["enum"] = words[self.name]
        default = f"; default {self.default}" if self.default else ""
        return {"name": self.name, "in": "query", "required": bool(self.needed), "description": f"{says}{default}.", "schema": schema}


class Route:
    def __init__(self, row):
        self.method = next(m for m in METHODS if m in row)
        self.row, spec = row, row[self.method]
        self.parts = re.findall(r"\{(\w+)(?::(\w+))?\}", spec)
        self.path = re.sub(r":\w+\}", "}", spec)
        self.query = [Query(q) for q in row.get("query", [])]
        self.shape, self.answer = re.fullmatch(r"(page of |json |)(\w+(?:\[\])?)", row["answer"]).groups()

    def params(self):
        yield from (param(PARTS[how], number=None if how else i) for i, (_, how) in enumerate(self.parts))
        yield from (q.row() for q in self.query)
        if "body" in self.row:
            yield param({"Tasks": "API_TASKS", "Payload": "API_PAYLOAD"}.get(self.row["body"], "API_BODY"))
        if "traced" in self.row:
            yield param("API_TRACE")

    def api(self):
        shape = {"page of ": "API_PAGE", "json ": "API_JSON"}.get(self.shape, "API_ARRAY" if self.answer.endswith("[]") else "API_OBJECT")
        members = {"sql": literal(self.row["sql"]), "shape": shape, "status": self.row.get("status"),
                   "location": "location" in self.row and literal(self.row["location"]), "shared": self.row.get("shared") and "true",
                   "hash_joins": self.row.get("hash_joins") and "true"}
        params = ", ".join(self.params())
        return initializer(members, f".param = {{{params}}}" if params else None)

    def operation(self, parameters, words):
        says = lambda *names: next(parameters[n] for n in names if n in parameters)
        described = [{"name": name, "in": "path", "required": True, "description": says(self.path, name) + ".",
                      "schema": {"type": "string"}} for name, _ in self.parts]
        described += [TRACEPARENT] * ("traced" in self.row)
        described += [q.describe(says(f"{self.path}?{q.name}", q.name), words) for q in self.query]
        schema = kind_of(self.answer + "[]" * (self.shape == "page of "))
        made = {"summary": self.row["says"], **({"parameters": described} if described else {}),
                "responses": {str(self.row.get("status", 200)): content("Done.", "application/json", schema), "default": PROBLEM}}
        if "body" in self.row:
            made["requestBody"] = {"required": self.row["body"] != "Payload", "content": {"application/json": {"schema": kind_of(self.row["body"])}}}
        return made


def literal(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def initializer(members, last=None):
    return "{%s}" % ", ".join([f".{name} = {value}" for name, value in members.items() if value] + [last] * bool(last))


def param(kind, name=None, fallback=None, number=None, needed=False, words=None):
    return initializer({"from": kind, "name": name and literal(name), "fallback": fallback and literal(fallback),
                        "number": number, "needed": needed and "true", "words": words})


def content(says, media, schema):
    return {"description": says, "content": {media: {"schema": schema}}}


def kind_of(word):
    if word.endswith("[]"):
        return {"type": "array", "items": kind_of(word[:-2])}
    return {"type": TYPES[word]} if word in TYPES else {"$ref": f"#/components/schemas/{word}"}


def schema_of(members):
    if isinstance(members, dict):
        return members
    fields = re.findall(r"(\w+) ([\w\[\]]+)(\??)(~?)", " ".join(members) if isinstance(members, list) else members)
    kinds = {name: kind_of(kind) for name, kind, _, _ in fields}
    kinds.update({name: {"type": [TYPES[kind], "null"]} for name, kind, null, _ in fields if null})
    required = [name for name, _, _, optional in fields if not optional]
    return {"type": "object", "properties": kinds, **({"required": required} if required else {})}


def definition(schema):
    """The columns of pgrab.task that users write: their comments do not begin with System."""
    types = dict(re.findall(r"^  (\w+) +(\w+)", re.search(r"create table pgrab\.task \((.*?)\n\)", schema, re.S)[1], re.M))
    says = {name: "".join(re.findall(r"'((?:[^']|'')*)'", text)).replace("''", "'")
            for name, text in re.findall(r"comment on column pgrab\.task\.(\w+) is((?:\s*'(?:[^']|'')*')+);", schema)}
    return {name: {"type": [COLUMNS[types[name]], "null"], "description": text} for name, text in says.items()
            if not text.startswith("System:") and name not in ("id", "owner")}


TRACEPARENT = {"name": "traceparent", "in": "header", "required": False, "schema": {"type": "string"},
               "description": "The trace (W3C) that its runs belong to, unless it has a schedule."}
PROBLEM = content("What went wrong, and what to do about it.", "application/problem+json", kind_of("Problem"))
EVENTS = {
    "summary": "What happens, as server-sent events: started, ended, nodes, more",
    "parameters": [{"name": "Last-Event-ID", "in": "header", "required": False,
                    "description": "From here on; without it from now on.", "schema": {"type": "string"}}],
    "responses": {"200": content("It goes on.", "text/event-stream", {"type": "string"}), "default": PROBLEM}}

DATABASES = {
    "summary": "Every database of this pgrab serve, as it was some seconds ago; those that are away, with the reason",
    "responses": {"200": content("All of them.", "application/json", kind_of("Database[]")),
                  "404": content("There is only one.", "application/problem+json", kind_of("Problem")), "default": PROBLEM}}


def with_columns(schema, columns):
    return schema | {"properties": columns | schema["properties"]}


def document(source, columns):
    paths = {}
    for route in map(Route, source["routes"]):
        paths.setdefault(route.path, {})[route.method.lower()] = route.operation(source["parameters"], source["words"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "pgrab", "version": "1", "license": {"name": "PostgreSQL", "identifier": "PostgreSQL"},
                 "description": "The HTTP API of `pgrab serve`. Lists, functions and names are those of the SQL schema pgrab and of "
                                "the command line's --json."},
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}, {}],
        "paths": paths | {"/databases": {"get": DATABASES}, "/events": {"get": EVENTS}},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer",
                                          "description": "A token of pgrab.token, where `auth = token`."}},
            "schemas": {name: schema_of(members) for name, members in source["schemas"].items()}
            | {"Definition": with_columns(source["schemas"]["Definition"], columns)}}}


def table(source):
    routes = [Route(row) for row in source["routes"]]
    words = "".join(f"static const char *const words_{name}[] = {{{', '.join(map(literal, list_))}, NULL}};\n"
                    for name, list_ in source["words"].items())
    apis = "".join(f"\t{r.api()},\n" for r in routes)
    rows = "".join(f'\t{{"{r.method}", "/api/v1{re.sub(r"{.*?}", "*", r.path)}", api_answer, &apis[{i}], ROUTE_KNOWN, ROUTE_AS_CALLER}},\n'
                   for i, r in enumerate(routes))
    return ('/* Made by routes.py; do not edit. */\n#include "serve/api.h"\n\n'
            f"{words}\nstatic const struct api apis[] = {{\n{apis}}};\n\nconst struct route api_routes[] = {{\n{rows}"
            '\t{"GET", "/api/v1/databases", fleet_answer, NULL, ROUTE_KNOWN, ROUTE_FREE},\n'
            '\t{"GET", "/api/v1/events", events_answer, NULL, ROUTE_KNOWN, ROUTE_AS_CALLER},\n'
            '\t{"GET", "/api/v1/openapi.json", asset_answer, "openapi.json", ROUTE_ANYBODY, ROUTE_HERE},\n'
            "\t{NULL, NULL, NULL, NULL, ROUTE_KNOWN, ROUTE_HERE},\n};\n")


def main():
    source, schema, out_c, out_json = map(pathlib.Path, sys.argv[1:])
    source = json.loads(source.read_text())
    out_c.write_text(table(source))
    out_json.write_text(json.dumps(document(source, definition(schema.read_text())), indent=1) + "\n")


if __name__ == "__main__":
    main()
