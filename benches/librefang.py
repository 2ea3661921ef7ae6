"""What LibreFang's hooks, its sidecar and the MCP server cost. `LCM_CLI` names the program; prints one JSON object,
milliseconds of wall time.

    LCM_CLI=target/release/lcm-cli python3 benches/librefang.py [STORE]

A hook is a fresh process: measured from its start to its end, beside `/bin/true` started in the same way, with a server on its
data directory. STORE is a data directory of 100,000 messages, of which a copy is searched through `lcm-cli mcp`.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = os.path.abspath(os.environ["LCM_CLI"])
AGENT = "6a5530d7-e09a-46be-854b-d3266eaa5db7"
ROUNDS = 100
WORDS = "the pier was painted blue in autumn and the harbour master wrote it down twice, once in ink".split()


def spread(times):
    times = sorted(times)
    return {"p50": round(statistics.median(times), 2), "p95": round(times[len(times) * 95 // 100], 2), "n": len(times)}


def moment(nth):
    return f"2026-12-01T{10 + nth // 3600:02}:{nth // 60 % 60:02}:{nth % 60:02}.{nth:09}Z"


def said(role, text, nth):
    return {"role": role, "content": text, "pinned": False, "timestamp": moment(nth)}


def conversation(size):
    """Messages of about so many bytes, and a request at their end."""
    messages, bytes_ = [], 0
    while bytes_ < size:
        nth = len(messages)
        text = f"{nth}: " + " ".join(WORDS[(nth + at) % len(WORDS)] for at in range(300))
        messages.append(said("user" if nth % 2 == 0 else "assistant", text, nth))
        bytes_ += len(text) + 100
    if messages and messages[-1]["role"] == "user":
        messages.pop()
    return messages + [said("user", "and now?", len(messages))]


def assemble(messages, window):
    return {"type": "assemble", "agent_id": AGENT, "system_prompt": "You help.", "messages": messages, "context_window_tokens": window}


def timed(command, request, env):
    began = time.perf_counter()
    done = subprocess.run(command, input=request, stdout=subprocess.PIPE, env=env, close_fds=False, check=True)
    return (time.perf_counter() - began) * 1000, done.stdout


class Lines:
    """A child that answers line by line."""

    def __init__(self, *arguments, home):
        self.child = subprocess.Popen([PROGRAM, "--home", home, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line):
        began = time.perf_counter()
        self.child.stdin.write(line)
        self.child.stdin.flush()
        answer = self.child.stdout.readline()
        return (time.perf_counter() - began) * 1000, answer

    def end(self):
        self.child.stdin.close()
        self.child.wait()


def hooks(home):
    server = Lines("serve", home=home)
    hello = {"id": 0, "method": "initialize", "params": {"protocol": 1, "client": {"name": "bench"}}}
    server.ask(json.dumps(hello).encode() + b"\n")
    hook = os.path.join(home, "lcm-hook")
    shutil.copy(PROGRAM, hook)
    env = {"LCM_HOME": home, "HOME": "/dev/null", "PATH": os.environ["PATH"]}
    told = {"true": spread([timed(["/bin/true"], b"", env)[0] for _ in range(ROUNDS)])}
    requests = {
        "ingest": {"type": "ingest", "agent_id": AGENT, "message": "hello", "peer_id": None},
        "transform": {"type": "transform_tool_result", "agent_id": AGENT, "tool_name": "ls", "tool_use_id": "t", "input": {}, "content": "a b c"},
        "assemble_small": assemble(conversation(1000), 16_384),
        "assemble_600k": assemble(conversation(600_000), 400_000),
    }
    for name, request in requests.items():
        line = json.dumps(request).encode() + b"\n"
        timed([hook], line, env)
        times = []
        for _ in range(ROUNDS):
            took, answer = timed([hook], line, env)
            times.append(took)
        told[name] = {**spread(times), "request_bytes": len(line), "answer_bytes": len(answer)}
    server.end()
    return told


def sidecar(home):
    child = Lines("sidecar", home=home)
    told = {}
    for name, size in (("small", 1000), ("600k", 600_000)):
        params = assemble(conversation(size), 400_000)
        params["agent_id"] = f"{AGENT}{name}"
        times = []
        for nth in range(ROUNDS):
            line = json.dumps({"id": nth, "method": "assemble", "params": params}).encode() + b"\n"
            times.append(child.ask(line)[0])
        told[name] = spread(times[1:])
    child.end()
    return told


def mcp(home):
    child = Lines("mcp", home=home)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    child.ask(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode() + b"\n")
    child.child.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    told = {}
    for name, arguments in (
        ("words", {"query": "error"}),
        ("regex", {"query": "err.r", "mode": "regex"}),
        ("ranked", {"query": "connection error handling", "sort": "relevance"}),
    ):
        params = {"name": "grep", "arguments": arguments}
        times = []
        for nth in range(ROUNDS):
            line = json.dumps({"jsonrpc": "2.0", "id": nth + 1, "method": "tools/call", "params": params}).encode() + b"\n"
            took, answer = child.ask(line)
            assert b'"result"' in answer, answer[:300]
            times.append(took)
        told[name] = {**spread(times[1:]), "answer_bytes": len(answer)}
    child.end()
    return told


def main():
    with tempfile.TemporaryDirectory() as folder:
        told = {"hook": hooks(folder)}
    with tempfile.TemporaryDirectory() as folder:
        told["sidecar"] = sidecar(folder)
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "store"
            shutil.copytree(sys.argv[1], copy)
            told["mcp_grep_100k"] = mcp(str(copy))
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
