"""A released LibreFang daemon with lcm installed in it, and a model that follows a script: machinery of `talk.py` and `modes.py`.

`Daemon` makes a home as a user has one, runs `lcm-cli install librefang` in it, and starts the daemon on that. `Model` stands
in for the model: each turn has a script, a generator that yields calls of tools, gets what the model was shown as their
results, and returns the reply. Every request is checked as it comes: its sequence, its size beside system prompt and
tools, and that the newest request of the person stands in it whole. What is wrong is collected in `Model.faults`.

`look_up` is the script by which a model finds what was said: `mcp_lcm_grep` for a word, then `mcp_lcm_expand` page by page.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
NOBODY = 65534
# Two requests of a person in a row are the host's own habit: it ends each window with the time of day.
HOST_HABITS = "two user messages in a row"
LCM_TOOLS = ["mcp_lcm_grep", "mcp_lcm_expand", "mcp_lcm_describe", "mcp_lcm_expand_query"]
QUOTE = re.compile(r"\A\[lcm:quote\]\n(.*)\n\[lcm:end\]\Z", re.DOTALL)
# How each text of the person begins: by its mark a request is known again.
SAYS = "turn {mark}: {text}"


def options(doc):
    """What both tests are told, with the harness of the host on the path of modules."""
    arguments = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--host", required=True, help="the released executable of the daemon")
    arguments.add_argument("--program", required=True, help="lcm-cli, where every user may execute it")
    arguments.add_argument("--shared", required=True, help="folder with hosts/mock_llm.py and hosts/librefang/e2e.py")
    arguments.add_argument("--keep", action="store_true", help="keep the daemon's home")
    return arguments


def harness(shared):
    """The classes of the host's own harness, which know how to start and ask it."""
    for folder in ("hosts/librefang", "hosts"):
        sys.path.insert(0, str(pathlib.Path(shared) / folder))
    import e2e
    import mock_llm
    return e2e, mock_llm


class Checks:
    """One line a check, and whether all held."""

    def __init__(self):
        self.failed, self.count = [], 0

    def __call__(self, name, is_well, detail=""):
        self.count += 1
        if not is_well:
            self.failed.append(name)
        more = "" if detail == "" else "  " + " ".join(str(detail).split())[:600]
        print(f"{'pass' if is_well else 'FAIL'}  {name}{more}", flush=True)
        return bool(is_well)

    def end(self):
        print(f"{self.count - len(self.failed)} passed, {len(self.failed)} failed", flush=True)
        return 1 if self.failed else 0


# ---- the model ---------------------------------------------------------------------------------------------------------


def answering(reply):
    """The script of a turn without calls."""
    return reply
    yield                                                       # what makes it a generator


def unquoted(text):
    """What stands in a quoted block of a tool's answer; `None` where the text is no such block."""
    block = QUOTE.match(text)
    if block is None:
        return None
    lines = block[1].split("\n")
    return "\n".join(line[2:] for line in lines) if all(line.startswith("> ") for line in lines) else None


def read_answer(text):
    """The object that a tool of lcm answered; `None` where the model was shown only a part of it. The host may write a note
    of its own behind it."""
    try:
        answer, _ = json.JSONDecoder().raw_decode(text or "")
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and "[TRUNCATED" not in text[-200:] else None


def look_up(wanted, found, together=2, scope="current"):
    """Finds originals as a model does. `wanted` has pairs of a word and a role, `None` for any; `found` gets the content of
    the message in which each word was said first, and under `None` what could not be read. An answer of which the model was
    shown only a part is asked for again, alone."""
    handles, left, alone = {}, list(wanted), 0
    while left:
        asked, left = left[:together], left[together:]
        answers = yield [("mcp_lcm_grep", {"query": f'"{word}"', "session_scope": scope, "limit": 20} | ({"role": role} if role else {}))
                         for word, role in asked]
        for (word, role), text in zip(asked, answers):
            answer = read_answer(text)
            if answer is not None and "results" in answer:
                # What was asked about it later is newer; what was said first is meant.
                hits = [hit for hit in answer["results"] if hit["type"] == "message" and not hit.get("ranked")]
                if hits:
                    handles.setdefault(min(hits, key=lambda hit: hit["store_id"])["handle"], []).append(word)
                continue
            found.setdefault(None, []).append((word, text))
            if alone < 4:
                alone, together, left = alone + 1, 1, [(word, role), *left]
    pages, alone = [(handle, None, "") for handle in handles], 0
    while pages:
        asked, pages = pages[:together], pages[together:]
        # Two whole pages at once are more than a small window holds.
        size = {"max_tokens": 1500} if together > 1 else {}
        answers = yield [("mcp_lcm_expand", {"id": handle, "exact": True} | size | ({"cursor": cursor} if cursor else {}))
                         for handle, cursor, _ in asked]
        for page, text in zip(asked, answers):
            handle, _, before = page
            answer = read_answer(text)
            if answer is None or "expanded" not in answer:
                found.setdefault(None, []).append((handles[handle][0], text))
                if alone < 4:
                    alone, together = alone + 1, 1
                    pages.insert(0, page)
                continue
            said = before
            for item in answer["expanded"]:
                said += unquoted(item.get("content", "")) or ""
                is_json = "content_format" in item
            if answer.get("has_more"):
                pages.insert(0, (handle, answer["cursor"], said))
            else:
                for word in handles[handle]:
                    found[word] = json.loads(said) if is_json else said
    return "that was looked up"


def make_model(mock_llm, window):
    """A model with a window of so many tokens that follows the scripts of its turns."""

    class Model(mock_llm.MockLLM):
        def __init__(self):
            super().__init__()
            self.window, self.turns, self.faults, self.largest, self.count = window, {}, [], 0, 0

        def expect(self, mark, text, script):
            self.turns[mark] = {"text": text, "script": script, "calls": [], "called": {}, "results": {}, "is_over": False, "windows": []}
            return self.turns[mark]

        def answer(self, req, size):
            if req.get("tools"):
                messages = req.get("messages") or []
                told = json.dumps(req["tools"], ensure_ascii=False)
                said = sum(len(mock_llm.text_of(m.get("content"))) +
                           (len(json.dumps(m["tool_calls"], ensure_ascii=False)) if m.get("tool_calls") else 0) for m in messages)
                tokens = (said + len(told)) // 4
                self.largest, self.count = max(self.largest, tokens), self.count + 1
                if tokens > self.window:
                    self.faults.append(f"request {self.count} has {tokens} tokens of {self.window}")
                bad = [problem for problem in mock_llm.sequence_problems(messages, wire=True) if not problem.endswith(HOST_HABITS)]
                self.faults += [f"request {self.count}: {problem}" for problem in bad]
            return super().answer(req, size)

        def message(self, messages):
            asked = mock_llm.last_user_text(messages)
            mark = re.search(r"turn (\S+): ", asked)
            turn = self.turns.get(mark[1]) if mark else None
            if turn is None or turn["is_over"]:
                self.faults.append(f"request {self.count}: the newest request is not shown: {asked[:100]!r}")
                return {"role": "assistant", "content": "nobody asked"}, "stop"
            if turn["text"] not in asked:
                self.faults.append(f"request {self.count}: the newest request is not whole: {asked[:100]!r}")
            turn["windows"].append(messages)
            shown = {m.get("tool_call_id"): mock_llm.text_of(m.get("content")) for m in messages if m.get("role") == "tool"}
            results = [shown.get(call) for call in turn["calls"]]
            turn["results"].update(zip(turn["calls"], results))
            try:
                calls = turn["script"].send(results) if turn["calls"] else next(turn["script"])
            except StopIteration as over:
                return {"role": "assistant", "content": over.value}, "stop"
            turn["calls"] = [f"call_{mark[1]}_{len(turn['called']) + at}" for at in range(len(calls))]
            turn["called"].update(zip(turn["calls"], calls))
            called = [{"id": call, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}
                      for call, (name, arguments) in zip(turn["calls"], calls)]
            return {"role": "assistant", "content": None, "tool_calls": called}, "tool_calls"

    return Model().start()


# ---- the daemon --------------------------------------------------------------------------------------------------------


class Daemon:
    """One home of the host with lcm installed, its daemon, and its agents."""

    def __init__(self, given, window, top="", config="", settings="", prepare=None):
        self.e2e, self.mock_llm = harness(given.shared)
        self.given, self.window = given, window
        self.uid = NOBODY if os.getuid() == 0 else None
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="librefang-lcm-"))
        self.work.chmod(0o755)
        self.model = make_model(self.mock_llm, window)
        self.host = self.e2e.Host(self.e2e.reachable_binary(os.path.abspath(given.host), self.uid, self.work), self.work, self.uid)
        self.home, self.data, self.turn_no, self.traces = self.host.home, self.host.home / "lcm", 0, {}
        self.desk = str(shutil.copy(HERE / "desk.py", self.work / "desk.py"))
        os.chmod(self.desk, 0o755)
        self.host.configure(self.model, "", [self.desk], "desk", {}, config)
        # The user's settings name no plugin: to name lcm is the work of `install`.
        path = self.home / "config.toml"
        path.write_text(top + path.read_text().replace('[context_engine]\nplugin = ""\n', ""))
        self.own(self.home)
        self.installed = self.lcm("install", "librefang", "--home", self.home)
        if settings:
            (self.data / "config.toml").write_text(settings)
        if prepare:
            prepare(self)
        self.own(self.home)

    def own(self, folder):
        if self.uid:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def lcm(self, *arguments):
        """Runs the program as the daemon's user."""
        as_user = {"user": self.uid, "group": self.uid, "extra_groups": []} if self.uid else {}
        return subprocess.run([self.given.program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120,
                              cwd=self.work, env={"PATH": os.environ["PATH"], "HOME": str(self.home)}, **as_user)

    def start(self, servers=2):
        self.host.start()
        self.wait_for_tools(servers)
        return self

    def wait_for_tools(self, servers=2):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            connected = self.host.get("/api/mcp/servers").get("connected", [])
            names = [tool["name"] for server in connected for tool in server.get("tools", [])]
            if len([server for server in connected if server.get("tools")]) >= servers:
                return names
            time.sleep(0.1)
        return names

    def end(self):
        try:
            self.host.stop()
        finally:
            self.model.server.shutdown()
            if self.given.keep:
                print(f"kept: {self.work}", file=sys.stderr)
            else:
                shutil.rmtree(self.work, ignore_errors=True)

    def agent(self, name, more="", tools=("file_read", "file_write", "mcp_desk_read", *LCM_TOOLS)):
        manifest = "\n".join([
            f'name = "{name}"', 'version = "0.1.0"', 'description = "test"', 'author = "test"', 'module = "builtin:chat"',
            f"tool_allowlist = {json.dumps(list(tools))}", 'mcp_servers = ["lcm", "desk"]',
            "[model]", 'provider = "openai"', 'model = "mock-model"', 'system_prompt = "You are a test agent."',
            f"context_window = {self.window}", more])
        status, answer = self.host.call("POST", "/api/agents", {"manifest_toml": manifest})
        if status >= 300:
            raise RuntimeError(f"agent refused: {status} {answer}")
        return answer["agent_id"]

    # -- what is said

    def say(self, agent, text, script=None, reply="well", mark=None, **fields):
        """One turn; gives the turn as the model saw it, with `status` and `reply` as the host answered."""
        self.turn_no += 1
        mark = mark or f"t{self.turn_no:04d}"
        said = SAYS.format(mark=mark, text=text)
        turn = self.model.expect(mark, said, script or answering(reply))
        status, answer = self.host.call("POST", f"/api/agents/{agent}/message", {"message": said, **fields}, timeout=120)
        turn.update(is_over=True, status=status, reply=answer.get("response"), answer=answer)
        return turn

    def find(self, agent, wanted, together=2, scope="current", **fields):
        """What the agent finds of pairs of a word and a role, with its own tools; in several turns."""
        found = {}
        for at in range(0, len(wanted), 6):
            self.say(agent, "look it up", look_up(wanted[at:at + 6], found, together, scope), **fields)
        return found

    # -- the process of lcm's tools

    def tools_process(self):
        """The process of the MCP server, a child of this daemon."""
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if parent == str(self.host.process.pid) and command[0].endswith(b"/lcm-cli") and b"mcp" in command:
                return int(entry.name)
        return None

    def kill_tools(self):
        process = self.tools_process()
        if process is None:
            raise RuntimeError("the process of lcm's tools is not there")
        os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while self.tools_process() == process and time.monotonic() < deadline:
            time.sleep(0.02)
        return process

    def reconnect(self):
        return self.host.call("POST", "/api/mcp/servers/lcm/reconnect", {})

    def spooled(self):
        return sorted(p for p in (self.data / "spool").glob("[0-9]*")) if (self.data / "spool").exists() else []

    def metrics(self):
        """What the daemon counted, once what runs behind an answer is done."""
        before = None
        for _ in range(20):
            now = {k: v for k, v in self.host.get("/api/context-engine/metrics").items() if isinstance(v, dict)}
            if now == before:
                break
            before = now
            time.sleep(0.3)
        return now

    def collect_traces(self):
        for trace in self.host.get("/api/context-engine/traces").get("traces", []):
            self.traces[trace["trace_id"]] = (trace["hook"], trace["elapsed_ms"], trace["success"], trace["error"])

    def latencies(self):
        by_hook = {}
        for hook, took, _, _ in self.traces.values():
            by_hook.setdefault(hook, []).append(took)
        return {hook: f"{sorted(took)[len(took) // 2]}/{max(took)} ms" for hook, took in sorted(by_hook.items())}
