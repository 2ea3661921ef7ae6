#!/usr/bin/env python3
"""An MCP server of the tests: `desk`, whose tool `read` gives page NUMBER, from 100 bytes to 60 KB, the same one each time.

The daemon runs it; the tests import `page` to know what it gave. Every seventh page cannot be read. One page in three is
written in several scripts, so that bytes and characters differ; the word of a page is in it and nowhere else.
"""
import json
import sys

SIZES = (100, 700, 3_000, 9_000, 100, 60_000, 3_000, 100, 17_000, 700, 3_000, 30_000, 100, 9_000)
SCRIPTS = ("harbour lamp tide rope", "Hafen Möwe größer Übung", "港口 灯塔 潮水 🌊")


def word_of(number):
    return f"page{number:05d}desk"


def is_missing(number):
    return number % 7 == 6


def page(number):
    """What is on a page; of one that cannot be read, why not."""
    if is_missing(number):
        return f"{word_of(number)} is not on the desk"
    size, words = SIZES[number % len(SIZES)], SCRIPTS[number % len(SCRIPTS)]
    lines, at, length = [f"{word_of(number)} of {size} bytes"], 0, 0
    while length < size:
        at += 1
        line = f"{at}. {words} {number * 7919 + at * 104729}"
        lines.append(line)
        length += len(line.encode()) + 1
    while len("\n".join(lines).encode()) > max(size, 60) and len(lines) > 1:
        lines.pop()
    return "\n".join(lines)


TOOL = {
    "name": "read", "description": "Gives a page of the desk.",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
}


def serve():
    for line in sys.stdin:
        call = json.loads(line)
        if "id" not in call:
            continue
        asked, given = call.get("params") or {}, {"jsonrpc": "2.0", "id": call["id"]}
        if call["method"] == "initialize":
            given["result"] = {"protocolVersion": asked["protocolVersion"], "capabilities": {"tools": {}},
                               "serverInfo": {"name": "desk", "version": "1"}}
        elif call["method"] == "tools/list":
            given["result"] = {"tools": [TOOL]}
        elif call["method"] == "tools/call":
            number = asked["arguments"]["number"]
            given["result"] = {"content": [{"type": "text", "text": page(number)}], "isError": is_missing(number)}
        elif call["method"] == "ping":
            given["result"] = {}
        else:
            given["error"] = {"code": -32601, "message": "no such method"}
        print(json.dumps(given), flush=True)


if __name__ == "__main__":
    serve()
