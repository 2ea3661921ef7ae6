"""The field cases against lcm: a host's calls go through the Python client and `lcm-cli serve`, those of a Hermes Agent through
its engine, an agent's through the tools, a person's through `lcm-cli`.

An adapter translates and does nothing else: no repair, no retry, no knowledge of a case. What the product has not is left
out; such a case is skipped by name. LCM_CLI names the program; else it is looked for
in the build folder.

    python3 adapter.py worker     one host process of its own, as `procs` and `kill9` need them; see `Worker`
"""
import base64
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import casekit

HERE = os.path.dirname(os.path.abspath(__file__))
PLUGIN = os.path.join(HERE, "..", "..", "plugins", "hermes", "__init__.py")
TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(HERE, "..", "..", "target")
PROGRAM = os.environ.get("LCM_CLI") or os.path.join(TARGET, "release", "lcm-cli")
NAMED = re.compile(r"\[lcm:(?:fold|part) ((?:msg|sum)_[0-9a-f]{16})")
# What a host may be shown at once is its own matter; the tests read whole answers.
ROOM = {"tokens_max": 10_000_000, "chars_max": 100_000_000}
# Places that one call of lcm_expand takes.
PLACES_MAX = 20

# Settings by meaning, as the product names them.
SETTINGS = {
    "context_length": "compress.window_tokens",
    "threshold_tokens": "compress.threshold_tokens",
    "context_threshold": "compress.threshold_ratio",
    "reserve_tokens": "compress.reserve_tokens",
    "protect_first_n": "compress.protect_first",
    "protect_last_n": "compress.protect_last",
    "tail_max_tokens": "compress.tail_tokens_max",
    "summary_budget_tokens": "compress.summary_tokens_max",
    "redact_secrets": "redact.enabled",
}


def loaded():
    spec = importlib.util.spec_from_file_location("lcm_plugin", PLUGIN)
    module = importlib.util.module_from_spec(spec)
    sys.modules["lcm_plugin"] = module
    spec.loader.exec_module(module)
    return module


lcm = loaded()


def run(*args, home, **more):
    """`lcm-cli` as a person runs it."""
    return subprocess.run([PROGRAM, "--home", home, *args], capture_output=True, text=True, check=False, **more)


def rows(*args, home):
    """The JSON lines of a command; none when it found nothing."""
    done = run(*args, "--format", "json", home=home)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip())
    return [json.loads(line) for line in done.stdout.splitlines()]


def unquoted(block):
    """What a quoted block of a tool's answer holds."""
    if not block:
        return ""
    inner = block.removeprefix("[lcm:quote]\n").removesuffix("\n[lcm:end]")
    return "\n".join(line.removeprefix("> ") for line in inner.split("\n"))


def summarizer(mode, text):
    """A summary model that behaves as it is told."""
    def summarize(request):
        if mode == "echo":
            return request["material"]
        if mode == "fixed":
            return text
        if mode == "empty":
            return ""
        if mode == "refusal":
            return "I'm sorry, but I can't help with that."
        if mode == "timeout":
            time.sleep(request["time_max_ms"] / 1000)
            raise TimeoutError("no answer")
        raise ConnectionError("the connection was lost")
    return summarize


class Refused(Exception):
    """A tool says that it cannot answer."""


class Lcm(casekit.Adapter):
    client, engine, is_hermes = None, None, False

    # ---- life

    def op_open(self, config=None, env=None):
        self.config = {**self.config, **(config or {})}
        self.agent, self.session, self.model, self.summarize = "agent", "session", None, None
        self.window, self.failures, self.reason, self.refused = self.config.get("context_length"), 0, None, False
        os.environ.pop("HERMES_HOME", None)
        os.environ.update(env or {})
        self.is_hermes = self.is_hermes or "HERMES_HOME" in (env or {})
        self.start()
        return True

    @property
    def home(self):
        return os.path.join(self.workdir, "store")

    def start(self):
        self.op_close()
        settings = {name: self.config[meaning] for meaning, name in SETTINGS.items() if meaning in self.config}
        if "summary_timeout_s" in self.config:
            settings["summary.pass_timeout_ms"] = int(self.config["summary_timeout_s"] * 1000)
        self.client = lcm.Client(self.home, program=PROGRAM, host="cases", settings=settings)

    def op_close(self):
        if self.engine:
            lcm.Client(self.op_store_path()).close()
            self.engine = None
        if self.client:
            self.client.close()
            self.client = None

    def cleanup(self):
        self.op_close()

    def op_reopen(self):
        if not hasattr(self, "session"):
            self.op_open(self.config)
        self.start()
        self.session, self.refused = "session", False
        try:
            self.client.status()
        except lcm.LcmError:
            self.refused = True
            raise

    def op_session_start(self, session_id, agent_id=None, hermes_home=None, **_):
        self.session = session_id
        if self.is_hermes or hermes_home is not None:
            self.is_hermes, self.engine = True, lcm.LCMEngine()
            self.engine.bind_session_state(session_db=self, session_id=session_id)
            self.engine.on_session_start(session_id, **({} if hermes_home is None else {"hermes_home": hermes_home}))
        if agent_id:
            self.agent = agent_id

    def op_update_model(self, model, context_length):
        self.model, self.window = model, context_length

    def op_usage(self, prompt_tokens, completion_tokens=0):
        self.client.usage(self.key(), self.model or "model", prompt_tokens)

    def op_summarizer(self, mode, text=None):
        self.summarize = summarizer(mode, text or "")

    def op_tz(self, name):
        os.environ["TZ"] = name
        time.tzset()
        self.client.close()

    def key(self, session_id=None):
        return lcm.Session(session_id or self.session, agent=self.agent)

    def options(self, protect_first_n=None, protect_last_n=None):
        """What is another from call to call."""
        options = {"window_tokens": self.window, "model": self.model, "protect_first": protect_first_n, "protect_last": protect_last_n}
        return {name: value for name, value in options.items() if value is not None}

    # ---- a Hermes Agent's calls

    def hermes_engine(self):
        """The engine as the agent gets it, before any other call."""
        if self.engine is None:
            os.environ.setdefault("HERMES_HOME", os.path.join(self.workdir, "hermes"))
            self.engine = lcm.LCMEngine(context_length=self.window or 0)
        return self.engine

    def op_attrs(self, names):
        return {name: getattr(self.hermes_engine(), name) for name in names}

    def op_host(self, method, args=(), kwargs=None):
        return getattr(self.hermes_engine(), method)(*args, **(kwargs or {}))

    # ---- turns

    def op_ingest(self, messages, session_id=None):
        if self.engine:
            self.engine.on_turn_complete(messages)
            return
        self.client.turn(self.key(session_id), messages)

    def op_compress(self, messages, current_tokens=None, force=False, protect_first_n=None, protect_last_n=None, session_id=None):
        if self.refused:
            # What a plugin does whose store is refused: the host goes on with its list.
            return messages
        done = self.client.compress(self.key(session_id), messages, options=self.options(protect_first_n, protect_last_n),
                                    current_tokens=current_tokens, force=bool(force), summarizer=self.summarize)
        self.failures += len(done.answer["failures"])
        self.reason = done.answer["reason"]
        return done.messages

    def op_select(self, request_messages, budget_tokens):
        # The system prompt is the host's own.
        head = next((at for at, message in enumerate(request_messages) if message.get("role") != "system"), len(request_messages))
        chosen = self.client.select(self.key(), request_messages, head=head, budget_tokens=budget_tokens, options=self.options()).messages
        return None if chosen is request_messages else chosen

    def op_estimate(self, messages):
        return self.client.weigh(messages)

    def op_preflight(self, messages):
        return self.op_estimate(messages) > self.in_force()["threshold_tokens"]

    def op_should_compress(self, prompt_tokens):
        return self.op_should_compress_info(prompt_tokens)["should"]

    def op_should_compress_info(self, prompt_tokens):
        due, reason = self.client.due(self.key(), prompt_tokens, options=self.options())
        return {"should": due, "reason": reason}

    # ---- how it stands

    def in_force(self):
        return self.client.status(options=self.options())["options"]

    def op_status(self):
        options = self.in_force()
        return {"nodes": len(self.summaries()), "failures": self.failures, "reason": self.reason,
                "context_length": options["window_tokens"], "threshold_tokens": options["threshold_tokens"],
                "tail_max_tokens": options["tail_tokens_max"]}

    def op_count(self, session_id=None):
        if self.engine:
            told = lcm.Client(self.op_store_path()).status(lcm.Session(session_id or self.session))["session"]
        else:
            told = self.client.status(self.key(session_id))["session"]
        return told["messages"] if told else 0

    def op_total_count(self):
        return sum(row["messages"] for row in rows("sessions", home=self.home))

    def summaries(self, session_id=None):
        """Those of a conversation: what was made in it, and what it took over from another."""
        name, found = session_id or self.session, {}
        if any(row["name"] == name for row in rows("sessions", "--agent", self.agent, home=self.home)):
            told = rows("grep", "^", "--kind", "summaries", "--agent", self.agent, "--session", name, home=self.home)
            found.update((row["summary"], row) for row in told)
        # A fold that no list has shown yet is found by its number only.
        for number in itertools.count(1):
            if not rows("describe", f"node {number}", home=self.home):
                break
            told = rows("describe", f"node {number}", "--agent", self.agent, home=self.home)
            found.update((number, row) for row in told if row["session_name"] == name)
        return [found[number] for number in sorted(found)]

    def op_nodes(self, session_id=None):
        nodes = []
        for row in self.summaries(session_id):
            shown, = rows("show", row["handle"], home=self.home)
            told, = rows("describe", row["handle"], home=self.home)
            sources = run("expand", "--raw", row["handle"], home=self.home).stdout.splitlines()
            nodes.append({"text": shown["text"], "from_ts": told["first_ms"] / 1000, "to_ts": told["last_ms"] / 1000,
                          "sources": [json.loads(source) for source in sources]})
        return nodes

    def op_rss(self):
        # The process is there from the first call on.
        self.client.call("ping")
        with open(f"/proc/{self.client.state()['pid']}/status", encoding="ascii") as status:
            kilobytes = next(line.split()[1] for line in status if line.startswith("VmRSS"))
        return int(kilobytes) / 1024

    # ---- reading

    def op_expand_all(self, messages):
        return self.client.behind(self.key(), messages)

    def op_ids(self, messages):
        return [handle for message in messages for handle in NAMED.findall(casekit.flat_text(message.get("content")))]

    def op_marks(self):
        return {"start": r"\[lcm:", "close": "[lcm:end]",
                "block": r"\[lcm:fold (sum_[0-9a-f]{16}).*?\n\[lcm:end\]|\[lcm:quote\].*?\[lcm:end\]"}

    def op_other_ids(self, id):
        kind, digits = id.split("_")
        near = [f"{kind}_{(int(digits, 16) + step) % 16 ** 16:016x}" for step in (1, -1)]
        return {"near": [*near, "node 1", "node 2"], "absent": f"{kind}_{int(digits, 16) ^ (16 ** 16 - 1):016x}"}

    def op_tool(self, tool, args):
        names = {"scope": "session_scope"}
        return self.client.tool(self.key(), f"lcm_{tool}", {names.get(name, name): value for name, value in args.items()})[0]

    def asked(self, name, **arguments):
        """A tool's answer, read; the text too."""
        arguments = {key: value for key, value in arguments.items() if value is not None}
        text, is_error = self.client.tool(self.key(), name, arguments, **ROOM)
        answer = json.loads(text)
        if is_error:
            raise Refused(answer["error"])
        return answer, text

    def op_expand(self, id, max_tokens, cursor=None):
        answer, text = self.asked("lcm_expand", node_id=id, max_tokens=max_tokens, cursor=cursor, include_messages=True)
        items = [{"role": item.get("role"), "text": unquoted(item[part])}
                 for item in answer["expanded"] for part in ("content", "calls", "summary") if part in item]
        return {"text": text, "items": items, "cut": answer.get("cut", False), "cursor": answer.get("cursor")}

    def op_expand_pages(self, messages, max_tokens, max_pages):
        pages = []
        for id in self.op_ids(messages):
            cursor = None
            while len(pages) < max_pages:
                page = self.op_expand(id, max_tokens, cursor)
                pages.append({"text": "".join(item["text"] for item in page["items"])})
                cursor = page["cursor"]
                if cursor is None:
                    break
        return pages

    def op_grep(self, query, scope="current", session_id=None, role=None, sort=None, limit=None, since=None, before=None):
        wanted, hits, cursor = limit or 20, [], None
        asked = {"query": query, "session_id": session_id, "session_scope": "session" if session_id else scope, "role": role,
                 "sort": sort, "time_from": since, "time_to": before}
        while len(hits) < wanted:
            try:
                answer, _ = self.asked("lcm_grep", limit=min(wanted - len(hits), 200), cursor=cursor, **asked)
            except Refused as error:
                return {"error": str(error)}
            # What is marked as ranked has some of the words only, and is there for who finds too little.
            hits += [hit for hit in answer["results"] if hit["type"] == "message" and not hit.get("ranked")]
            cursor = answer.get("cursor")
            if cursor is None:
                break
        whole = {}
        for at in range(0, len(hits), PLACES_MAX):
            places = [hit["store_id"] for hit in hits[at:at + PLACES_MAX]]
            for item in self.asked("lcm_expand", store_id=places, exact=True, max_tokens=1_000_000)[0]["expanded"]:
                whole[item["store_id"]] = item
        found = []
        for hit in hits:
            item = whole[hit["store_id"]]
            content = unquoted(item.get("content", ""))
            found.append({"role": item["role"], "time": item["time"],
                          "content": json.loads(content) if item.get("content_format") == "json" else content})
        return found

    # ---- settings and programs

    def op_config_file(self, entries):
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        keys, lines = [], []
        for entry in entries:
            right = SETTINGS.get(entry["means"], entry["means"])
            written = right
            if entry.get("misspelt"):
                at = right.rindex(".") + 1 if "." in right else 0
                written = right[:at + 1] + right[at + 2] + right[at + 1] + right[at + 3:]
            keys.append({"written": written, "right": right})
            lines.append(f"{written} = {json.dumps(entry['value'])}\n")
        with open(os.path.join(self.home, "config.toml"), "w", encoding="utf-8") as file:
            file.writelines(lines)
        return keys

    def op_start(self):
        self.op_open()
        said = []
        try:
            self.client.call("ping")
        except lcm.LcmError as error:
            said.append(error.message)
        state = self.client.state()
        said += state["notes"]
        if os.path.exists(state["log"]):
            with open(state["log"], encoding="utf-8", errors="replace") as log:
                said.append(log.read())
        return "\n".join(said)

    MEANT = {"stats": ["status"], "grep": ["grep", "--words"], "verify": ["check"], "reindex": ["repair", "index"],
             "doctor": ["doctor"]}

    def op_cli(self, args, stdin=None):
        if args[0] not in self.MEANT:
            raise casekit.Unsupported(f"cli {args[0]}")
        done = run(*self.MEANT[args[0]], *args[1:], home=self.home, input=stdin)
        return {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def op_hook(self, name, params=None, stdin_raw=None, stdin_b64=None, stdin_open_s=None):
        """LibreFang's: the program under the name that makes it a hook, a request on its standard input."""
        hook = os.path.join(self.workdir, "plugins", "lcm", "hooks", "lcm-hook")
        if not os.path.lexists(hook):
            os.makedirs(os.path.dirname(hook))
            os.symlink(os.path.abspath(PROGRAM), hook)
        env = {"HOME": "/dev/null", "LCM_HOME": self.home, "PATH": os.environ["PATH"]}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([hook], env=env, cwd="/", **pipes) as process:
            if stdin_open_s is not None:
                try:
                    process.wait(stdin_open_s)
                except subprocess.TimeoutExpired:
                    process.kill()
                stdin = b""
            elif stdin_b64 is not None:
                stdin = base64.b64decode(stdin_b64)
            elif stdin_raw is not None:
                stdin = stdin_raw.encode()
            else:
                stdin = json.dumps({"type": name, **(params or {})}).encode() + b"\n"
            stdout, stderr = process.communicate(stdin)
        return {"exit": process.returncode, "stdout": stdout.decode(), "stderr": stderr.decode()}

    def worker(self, call, session_id):
        if call["op"] != "ingest":
            raise casekit.Unsupported(f"{call['op']} in another process")
        return Worker(self.home, self.key_in(call, session_id), call["messages"])

    def key_in(self, call, session_id):
        agent = getattr(self, "agent", "agent")
        return lcm.Session(session_id or call.get("session_id") or self.session, agent=agent)

    def op_procs(self, n, each):
        workers = [self.worker(each, f"{each['session_prefix']}{i}") for i in range(n)]
        for worker in workers:
            worker.go()
        return [worker.end() for worker in workers]

    def op_kill9(self, during, after_ms=None):
        worker = self.worker(during, None)
        worker.ready()
        worker.go()
        if after_ms is None:
            worker.answered.wait(30)
        else:
            worker.answered.wait(after_ms / 1000)
        return {"answered": worker.kill()}

    # ---- files

    def op_corrupt(self, target, how):
        folder = os.path.join(self.home, "index")
        if (target, how) == ("index", "delete"):
            shutil.rmtree(folder, ignore_errors=True)
        elif (target, how) == ("index", "drop_entry"):
            drop_document(os.path.join(folder, "words"))
        else:
            raise casekit.Unsupported(f"corrupt {target} {how}")

    def current(self):
        with open(os.path.join(self.home, "CURRENT"), encoding="ascii") as file:
            return file.read().split(" ")

    def op_format_version(self):
        return int(self.current()[1])

    def op_set_format_version(self, version=None, delta=None):
        name, number, file_name = self.current()
        number = version if version is not None else int(number) + delta
        with open(os.path.join(self.home, "CURRENT"), "w", encoding="ascii") as file:
            file.write(f"{name} {number} {file_name}")
        return number

    def op_store_path(self):
        return os.path.dirname(self.engine.get_status()["child"]["log"]) if self.engine else self.home

    def op_store_files(self):
        files = super().op_store_files()
        return {name: digest for name, digest in files.items() if not name.endswith((".log", ".log.1", ".lock"))}


def drop_document(folder):
    """Takes the last document out of the largest segment of a tantivy index: its table of contents says that the segment
    ends before."""
    path = os.path.join(folder, "meta.json")
    with open(path, encoding="utf-8") as file:
        meta = json.load(file)
    segment = max(meta["segments"], key=lambda segment: segment["max_doc"])
    segment["max_doc"] -= 1
    with open(path, "w", encoding="utf-8") as file:
        json.dump(meta, file)


class Worker:
    """A host in a process of its own: it says the number of its `lcm-cli serve`, shows a list when it is told to, and says
    that it was answered."""

    def __init__(self, home, key, messages):
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(casekit.__file__))}
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "worker"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.process.stdin.write(json.dumps({"home": home, "key": key, "messages": messages}) + "\n")
        self.process.stdin.flush()
        self.answered, self.serving = threading.Event(), None

    def ready(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.end()["stderr"].strip())
        self.serving = int(line)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        if self.process.stdout.readline():
            self.answered.set()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        _, said = self.process.communicate(timeout=60)
        return {"exit": self.process.returncode, "stderr": said}

    def kill(self):
        """Both processes, the one that writes first; whether the call was answered before."""
        answered = self.answered.is_set()
        os.kill(self.serving, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()
        return answered


def work():
    task = json.loads(sys.stdin.readline())
    client = lcm.Client(task["home"], program=PROGRAM, host="cases")
    client.call("ping")
    print(client.state()["pid"], flush=True)
    sys.stdin.readline()
    try:
        client.turn(lcm.Session(*task["key"]), task["messages"])
    except lcm.LcmError as error:
        sys.exit(error.message)
    print("answered", flush=True)


def make_adapter():
    return Lcm()


if __name__ == "__main__" and sys.argv[1:] == ["worker"]:
    work()
