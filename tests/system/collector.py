"""A collector of traces that takes what the OTLP specification allows in its JSON encoding, and refuses everything else.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: numbers of traces and spans are hexadecimal, 64-bit integers are decimal strings,
enumerations are numbers, and names are lowerCamelCase.
"""
import http.server
import json
import re
import threading

SPAN = {"traceId": "trace", "spanId": "span", "parentSpanId": "span", "name": "text", "kind": "kind", "startTimeUnixNano": "uint64", "endTimeUnixNano": "uint64",
        "attributes": "attributes", "links": "links", "status": "status"}
MUST = {"traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"}


def has(thing, known, must=()):
    assert isinstance(thing, dict) and set(must) <= set(thing) <= set(known), thing


def check_attributes(attributes):
    for a in attributes:
        has(a, {"key", "value"}, {"key", "value"})
        (kind, value), = a["value"].items()
        assert kind == "stringValue" and isinstance(value, str) or kind == "intValue" and re.fullmatch("-?[0-9]+", value) and -2**63 <= int(value) < 2**63, a
    assert len({a["key"] for a in attributes}) == len(attributes), attributes


def check(what, value):
    if what in ("trace", "span"):
        assert re.fullmatch(f"[0-9a-f]{{{32 if what == 'trace' else 16}}}", value) and int(value, 16) > 0, value
    elif what == "text":
        assert isinstance(value, str) and value
    elif what == "kind":
        assert type(value) is int and 1 <= value <= 5, value
    elif what == "uint64":
        assert isinstance(value, str) and re.fullmatch("[0-9]+", value) and int(value) < 2**64, value
    elif what == "attributes":
        check_attributes(value)
    elif what == "links":
        for link in value:
            has(link, {"traceId", "spanId", "attributes"}, {"traceId", "spanId"})
            check("trace", link["traceId"])
            check("span", link["spanId"])
    elif what == "status":
        has(value, {"code", "message"})
        assert value.get("code", 0) in (0, 1, 2) and isinstance(value.get("message", ""), str), value


def spans_of(request):
    has(request, {"resourceSpans"}, {"resourceSpans"})
    for resource in request["resourceSpans"]:
        has(resource, {"resource", "scopeSpans", "schemaUrl"}, {"resource", "scopeSpans"})
        has(resource["resource"], {"attributes", "droppedAttributesCount"})
        check_attributes(resource["resource"]["attributes"])
        for scope in resource["scopeSpans"]:
            has(scope, {"scope", "spans", "schemaUrl"}, {"spans"})
            has(scope["scope"], {"name", "version", "attributes"})
            for span in scope["spans"]:
                has(span, SPAN, MUST)
                for key, value in span.items():
                    check(SPAN[key], value)
                assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]), span
                yield span


class Collector:
    """answers: what is answered to the next requests, (status, body); then 200."""

    def __init__(self):
        self.spans, self.headers, self.faults, self.answers, self.requests = [], [], [], [], 0
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = collector.answers.pop(0) if collector.answers else (200, {})
                collector.requests += 1
                try:
                    assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json", (self.path, self.headers.items())
                    spans = list(spans_of(json.loads(body)))
                    if status == 200:
                        collector.spans += spans
                        collector.headers.append(dict(self.headers))
                except (AssertionError, ValueError, TypeError) as e:
                    collector.faults.append(repr(e))
                    status = 400
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
