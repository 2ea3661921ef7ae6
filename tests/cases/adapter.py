"""The field cases against lcm, through one long-lived `lcm-bridge` and, where a case asks for it, `lcm-cli`.

An adapter translates and does nothing else: no repair, no retry, no knowledge of a case. What the product has not yet
is left out, and the case is skipped by name. LCM_BRIDGE and LCM_CLI name the programs; else they are looked for in the
build folder.
"""
import json
import os
import re
import shutil
import subprocess
import threading

import casekit

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.environ.get("CARGO_TARGET_DIR") or os.path.join(HERE, "..", "..", "target")
HANDLE = re.compile(r"(?:msg|sum)_[0-9a-f]{16}")
OURS = re.compile(r"\[lcm:")
PART_OR_FOLD = re.compile(r"\[lcm:(?:fold|part) ((?:msg|sum)_[0-9a-f]{16})")


def program(variable, name):
    return os.environ.get(variable) or os.path.join(TARGET, "release", name)


def flat(message):
    return casekit.flat_text(message.get("content"))


class Bridge:
    def __init__(self, home):
        self.process = subprocess.Popen(
            [program("LCM_BRIDGE", "lcm-bridge"), home],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="surrogatepass")
        self.lock = threading.Lock()

    def ask(self, **request):
        with self.lock:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("lcm-bridge has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


class Lcm(casekit.Adapter):
    bridge = None

    # ---- life

    def op_open(self, config=None, env=None):
        self.config = dict(config or {})
        self.agent, self.session, self.model = "agent", "session", None
        self.window = self.config.get("context_length")
        self.last, self.failures = {}, 0
        self.hosts_home = "HERMES_HOME" in (env or {})
        self.home = os.path.join(self.workdir, "store")
        self.start()
        return True

    def start(self):
        self.op_close()
        self.bridge = Bridge(self.home)

    def op_close(self):
        if self.bridge:
            self.bridge.end()
            self.bridge = None

    def cleanup(self):
        self.op_close()

    def op_reopen(self):
        self.start()
        self.session = "session"

    def op_session_start(self, session_id, agent_id=None, hermes_home=None, **_):
        self.session = session_id
        self.hosts_home = self.hosts_home or hermes_home is not None
        if agent_id:
            self.agent = agent_id

    def op_update_model(self, model=None, context_length=None, **_):
        self.window = context_length

    def op_usage(self, prompt_tokens=0, completion_tokens=0, **_):
        pass

    def op_summarizer(self, mode, text=None):
        self.model = {"mode": mode, "text": text or ""}

    # ---- settings

    def threshold(self):
        if self.config.get("threshold_tokens"):
            return self.config["threshold_tokens"]
        share = self.config.get("context_threshold") or 0.75
        return int((self.window or 128000) * share)

    def options(self, protect_first_n=None, protect_last_n=None):
        c = self.config
        pick = lambda given, name: given if given is not None else c.get(name)
        out = {
            "threshold_tokens": self.threshold(),
            "protect_first": pick(protect_first_n, "protect_first_n"),
            "protect_last": pick(protect_last_n, "protect_last_n"),
            "tail_tokens_max": c.get("tail_max_tokens"),
            "summary_tokens_max": c.get("summary_budget_tokens"),
            "summary_time_max_ms": int(c["summary_timeout_s"] * 1000) if c.get("summary_timeout_s") else None,
        }
        return {name: value for name, value in out.items() if value is not None}

    # ---- turns

    def op_ingest(self, messages, session_id=None, **_):
        self.bridge.ask(op="turn", agent=self.agent, session=session_id or self.session, messages=messages)

    def op_compress(self, messages, current_tokens=None, force=False, protect_first_n=None, protect_last_n=None, session_id=None, **_):
        request = dict(op="shorten", agent=self.agent, session=session_id or self.session, messages=messages,
                       options=self.options(protect_first_n, protect_last_n), force=bool(force))
        if current_tokens is not None:
            request["current_tokens"] = current_tokens
        if self.model:
            request["model"] = self.model
        answer = self.bridge.ask(**request)
        self.last = answer
        self.failures += len(answer["failures"])
        return answer["messages"]

    def op_estimate(self, messages):
        return self.bridge.ask(op="weigh", messages=messages)["tokens"]

    def op_preflight(self, messages):
        return self.op_estimate(messages) > self.threshold()

    def op_should_compress(self, prompt_tokens=None, **_):
        return self.op_should_compress_info(prompt_tokens)["should"]

    def op_should_compress_info(self, prompt_tokens=None, **_):
        answer = self.bridge.ask(op="due", agent=self.agent, session=self.session, options=self.options(),
                                 current_tokens=prompt_tokens or 0)
        return {"should": answer["due"], "reason": answer["reason"]}

    def op_status(self, session_id=None):
        told = self.bridge.ask(op="nodes", agent=self.agent, session=session_id or self.session)
        in_force = self.bridge.ask(op="options", options=self.options())
        return {"nodes": len(told["nodes"]), "failures": self.failures, "reason": self.last.get("reason"),
                "context_length": self.window, "threshold_tokens": in_force["threshold_tokens"],
                "tail_max_tokens": in_force["tail_tokens_max"]}

    def op_nodes(self, session_id=None):
        return self.bridge.ask(op="nodes", agent=self.agent, session=session_id or self.session)["nodes"]

    def op_rss(self):
        with open(f"/proc/{self.bridge.process.pid}/status", encoding="ascii") as status:
            kilobytes = next(line.split()[1] for line in status if line.startswith("VmRSS"))
        return int(kilobytes) / 1024

    def op_corrupt(self, target, how):
        if (target, how) != ("index", "delete"):
            raise casekit.Unsupported(f"corrupt {target} {how}")
        shutil.rmtree(os.path.join(self.home, "index"), ignore_errors=True)

    MEANT = {"stats": ["status"], "grep": ["grep", "--words"], "verify": ["check"], "reindex": ["repair", "index"]}

    def op_cli(self, args, stdin=None):
        if args[0] not in self.MEANT:
            raise casekit.Unsupported(f"cli {args[0]}")
        command = [program("LCM_CLI", "lcm-cli"), "--home", self.home, *self.MEANT[args[0]], *args[1:]]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        return {"exit": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    # ---- reading

    def op_expand_all(self, messages):
        return self.bridge.ask(op="behind", agent=self.agent, messages=messages)["messages"]

    def op_ids(self, messages):
        return [handle for message in messages for handle in PART_OR_FOLD.findall(flat(message))]

    def op_marks(self):
        return {"start": r"\[lcm:", "block": r"\[lcm:fold (sum_[0-9a-f]{16}).*?\n\[lcm:end\]",
                "close": "[lcm:end]"}

    def op_grep(self, query, scope="current", session_id=None, role=None, limit=None, **other):
        if any(value is not None for value in other.values()):
            raise casekit.Unsupported("grep with " + ", ".join(sorted(other)))
        answer = self.bridge.ask(op="find", agent=self.agent, session=session_id or self.session, query=query,
                                 everywhere=scope == "all", limit=limit or 0)
        hits = answer["messages"]
        return [hit for hit in hits if role is None or hit.get("role") == role]

    def op_count(self, session_id=None):
        return self.bridge.ask(op="count", agent=self.agent, session=session_id or self.session)["messages"]

    def op_total_count(self):
        return self.bridge.ask(op="count_all", agent=self.agent)["messages"]

    def op_store_path(self):
        if self.hosts_home:
            raise casekit.Unsupported("the home of a named host")
        return self.home


def make_adapter():
    return Lcm()
