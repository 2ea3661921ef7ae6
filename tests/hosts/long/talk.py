"""A long conversation through a real Hermes Agent: 300 turns in a window of 65,536 tokens, with calls of tools, three subagents,
and another process of the agent on the same home; then every fact of the first turn is asked for.

    talk.py --venv DIR --shared DIR [--turns 300] [--rotate]

`--venv` holds the agent, `--shared` the model that stands in (`hosts/mock_llm.py`), `LCM_CLI` names the program. Prints one JSON
object; exits 1 when something is lost, doubled, invalid or larger than the window.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

WINDOW = 65_536
FACTS = {f"zephyr-vault-{at}": f"code-{7319 + at}-amber" for at in range(6)}
PLUGIN = pathlib.Path(__file__).resolve().parents[3] / "plugins" / "hermes"
CONFIG = """model:
  default: mock-model
  provider: custom
  base_url: {url}
  api_key: sk-mock
  context_length: {window}
context:
  engine: lcm
plugins:
  enabled: [lcm]
memory:
  memory_enabled: false
  user_profile_enabled: false
compression:
  enabled: true
  in_place: {in_place}
"""


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or () if isinstance(part, dict))


class Talk:
    """What runs inside the agent's Python."""

    def __init__(self, given):
        sys.path.insert(0, os.path.join(given.shared, "hosts"))
        from mock_llm import MockLLM
        self.turns, self.mock, self.bad = given.turns, None if given.url else MockLLM().start(), []
        self.url = given.url or self.mock.base_url
        self.home = pathlib.Path(os.environ["HERMES_HOME"])
        if not given.url:
            (self.home / "config.yaml").write_text(CONFIG.format(url=self.url, window=WINDOW, in_place=str(not given.rotate).lower()))
        from hermes_state import SessionDB
        from run_agent import AIAgent
        self.history, self.db = [], SessionDB(self.home / "state.db")
        self.agent = AIAgent(base_url=self.url, api_key="sk-mock", provider="custom", model="mock-model", quiet_mode=True, session_db=self.db,
                             platform="cli", skip_context_files=True, skip_memory=True, max_iterations=8)

    def turn(self, text):
        result = self.agent.run_conversation(text, conversation_history=self.history)
        self.history = result["messages"]
        if result.get("failed"):
            self.bad.append(f"failed: {text[:60]}: {str(result.get('final_response'))[:120]}")

    def script(self, at):
        if at in (self.turns // 5, self.turns // 2, self.turns * 4 // 5):
            return f'subtask {at} CALL delegate_task {{"goal": "say hi {at}", "context": "none"}} '
        if at % 5 == 0:
            return f'item {at} of the work CALL lcm_describe {{"id": "{at}"}} '
        return f"item {at} of the work REPLY {1500 + at * 37 % 3000}"

    def beside(self):
        """Another process of the agent: a few turns, and a fold."""
        for at in range(12):
            self.turn(f"beside {at} REPLY 9000")
        self.agent._compress_context(self.history, None, approx_tokens=WINDOW, force=True)
        print("BESIDE", json.dumps(self.bad), flush=True)

    def run(self):
        began, other = time.monotonic(), None
        self.turn("Please remember: " + "; ".join(f"{name} is {code}" for name, code in FACTS.items()) + ". REPLY 2000")
        for at in range(1, self.turns):
            if at == self.turns // 3:
                command = [sys.executable, __file__, "--inside", "--url", self.url, *sys.argv[1:]]
                other = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.turn(self.script(at))
        told = other.communicate(timeout=120)[0]
        beside = re.search(r"^BESIDE (.*)$", told, re.MULTILINE)
        self.bad += [f"beside: {what}" for what in json.loads(beside[1])] if beside else ["beside: it did not end well"]
        mine = self.requests()
        found = {}
        for name in FACTS:
            self.turn(f'where was {name} CALL lcm_grep {{"query": "{name}"}} ')
            results = [message for message in self.mock.main_requests()[-1]["messages"] if message.get("role") == "tool"]
            found[name] = bool(results) and FACTS[name] in text_of(results[-1].get("content"))
        self.bad += [f"not found: {name}" for name, is_found in found.items() if not is_found]
        self.bad += [f"invalid: {problem}" for request in self.mock.main_requests() for problem in request["problems"]]
        largest = max(request["bytes"] for request in mine)
        if largest / 4 > WINDOW:
            self.bad.append(f"a request of {largest} bytes")
        return {"turns": self.turns, "requests": len(mine), "largest_request_bytes": largest, "facts_found": sum(found.values()),
                "kept_prefix": self.kept_prefix(mine), "seconds": round(time.monotonic() - began, 1), "bad": self.bad,
                "session": self.agent.session_id}

    def requests(self):
        """The requests of this conversation, not of its subagents or the other process."""
        def is_mine(request):
            return any(text_of(message.get("content")).startswith(("Please remember: zephyr", "item ", "subtask ")) or
                       "[lcm:fold" in text_of(message.get("content")) for message in request["messages"]
                       if message.get("role") == "user") and not any("beside " in text_of(message.get("content"))[:8] for message in request["messages"])
        return [request for request in self.mock.main_requests() if is_mine(request)]

    def kept_prefix(self, requests):
        """Which share of each request the next one begins with, all together: what a prompt cache can keep."""
        kept = whole = 0
        for before, after in zip(requests, requests[1:]):
            for one, other in zip(before["messages"], after["messages"]):
                if one != other:
                    break
                kept += len(json.dumps(one))
            whole += len(json.dumps(before["messages"]))
        return round(kept / whole, 4) if whole else 0.0


def drive(given):
    """Makes a home, runs the conversation in the agent's Python, and looks into the store."""
    program = os.environ["LCM_CLI"]
    home = pathlib.Path(tempfile.mkdtemp(prefix="hermes-long-"))
    try:
        shutil.copytree(PLUGIN, home / "plugins" / "lcm", ignore=shutil.ignore_patterns("__pycache__"))
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and not name.endswith("_API_KEY")}
        env |= {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
        env |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "HERMES_HOME": str(home), "HOME": str(home),
                "HERMES_YOLO_MODE": "1", "HERMES_ACCEPT_HOOKS": "1"}
        command = [str(pathlib.Path(given.venv) / "bin" / "python"), __file__, "--inside", *sys.argv[1:]]
        with open(home / "said.txt", "w", encoding="utf-8") as log:
            done = subprocess.run(command, env=env, cwd=home, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True,
                                  timeout=1800, check=False)
        told = re.search(r"^TOLD (.*)$", done.stdout, re.MULTILINE)
        if not told:
            sys.exit((home / "said.txt").read_text(encoding="utf-8")[-2000:] or "the agent said nothing")
        report = json.loads(told[1])
        data = str(home / "lcm")
        check = subprocess.run([program, "--home", data, "check"], capture_output=True, text=True, check=False)
        if check.returncode:
            report["bad"].append(f"check: {check.stdout[-300:]}{check.stderr[-300:]}")
        log = subprocess.run([program, "--home", data, "--format", "json", "log", report["session"]], capture_output=True, text=True, check=False)
        said = [json.loads(line) for line in log.stdout.splitlines()]
        items = [match[0] for row in said if row.get("role") == "user" if (match := re.match(r"item \d+ of the work|subtask \d+", row.get("headline", "")))]
        wanted = report["turns"] - 1
        report |= {"kept": len(said), "requests_kept": len(items)}
        if len(set(items)) != wanted or len(items) != wanted:
            report["bad"].append(f"{wanted} requests were made, {len(items)} are kept, {len(set(items))} of them different")
        print(json.dumps(report, indent=1))
        return 1 if report["bad"] else 0
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--venv", required=True)
    arguments.add_argument("--shared", required=True)
    arguments.add_argument("--turns", type=int, default=300)
    arguments.add_argument("--rotate", action="store_true")
    arguments.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--url", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if not given.inside:
        sys.exit(drive(given))
    # The agent writes to standard output; ours goes around it.
    stdout = os.dup(1)
    os.dup2(2, 1)
    talk = Talk(given)
    if given.url:
        sys.stdout = os.fdopen(stdout, "w")
        talk.beside()
    else:
        os.write(stdout, f"TOLD {json.dumps(talk.run())}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main()
