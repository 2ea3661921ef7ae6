"""A long conversation through a released LibreFang daemon in which `lcm-cli install librefang` has installed lcm.

    talk.py --host LIBREFANG --program LCM_CLI --shared DIR [--turns 200] [--window 16384]

Protects the promise as a whole: nothing that was said is lost, and every request to the model is one that it takes. A person
talks with an agent that calls tools (pages of 100 bytes to 60 KB, several in one step, some fail, and its own `file_read`) in a
small window. Meanwhile the process of lcm's tools is killed twice, so that hooks have nobody to ask for some turns; the host is
told to compact twice; the daemon starts anew; the session is reset. At the end the agent looks up every single text with its
own tools, and what it finds is compared with what was said: requests, replies, and results of tools as the tool gave them,
however little of them the model was shown. `lcm-cli check` and `lcm-cli export` have to agree.
"""
import json
import os
import sys
import time

import desk
from daemon import Checks, Daemon, options

FAILED = "Error: Upstream error: MCP tool call failed: "


def notes(at):
    """A file of the agent's own: the host gives a file that was read before as "already read", so each is read once."""
    return "\n".join(f"note {line}: the rope of pier {at + line * 7919} was replaced" for line in range(150)) + f"\nnotes{at:05d}file\n"


def filler(characters, seed):
    """So many characters that repeat nothing: hosts cut what does."""
    words, length, at = [], 0, 0
    while length < characters:
        at += 1
        words.append(f"{'lamp rope tide pier buoy'.split()[at % 5]}{(seed * 31 + at) * 7919 % 100003}")
        length += len(words[-1]) + 1
    return " ".join(words)


class Talk:
    def __init__(self, given):
        self.turns, self.check = given.turns, Checks()
        # After a reset of the host's session the agent asks for what was said before: the same person, another conversation.
        self.daemon = Daemon(given, given.window, settings="[tools]\nacross_sessions = true\n")
        self.wanted, self.pages, self.bad_answers, self.not_kept = [], 0, [], set()

    def numbers(self, count):
        self.pages += count
        return list(range(self.pages - count, self.pages))

    def script(self, at, reply):
        """What the model does in a turn."""
        if at % 23 == 5:
            yield [("file_read", {"path": f"notes{at}.txt"})]
        if at % 5 in (1, 3):
            yield [("mcp_desk_read", {"number": number}) for number in self.numbers(1 + at % 3)]
        if at % 10 == 3:
            yield [("mcp_desk_read", {"number": number}) for number in self.numbers(1 + at % 2)]
        return reply

    def turn(self, at):
        # A long one now and then; none takes more than a fifth of the window.
        size = 1 + at * 37 % 900 if at % 17 else self.daemon.window * 4 // 5
        text = f"ask{at:05d}user about {filler(size, at)}"
        reply = f"re{at:05d}reply is {filler(1 + at * 53 % 2500, at + 1)}"
        turn = self.daemon.say(self.agent, text, self.script(at, reply))
        if turn["status"] != 200 or turn["reply"] != reply:
            self.bad_answers.append(f"turn {at}: {turn['status']} {str(turn['answer'])[:200]}")
        self.wanted.append((f"ask{at:05d}user", "user", turn["text"]))
        for call, (name, arguments) in turn["called"].items():
            shown = turn["results"].get(call) or ""
            number = arguments.get("number")
            if name == "file_read":
                self.wanted.append((f"notes{at:05d}file", None, (call, notes(at))))
            elif shown.startswith("Skipped:"):
                # The host ran no call behind one that failed.
                self.wanted.append((None, None, (call, shown)))
            else:
                text = (FAILED if desk.is_missing(number) else "") + desk.page(number)
                self.wanted.append((desk.word_of(number), None, (call, text)))
        self.wanted.append((f"re{at:05d}reply", "assistant", reply))
        if at % 20 == 0:
            self.daemon.collect_traces()

    def between(self, at):
        """What happens to the host between two turns."""
        daemon, part = self.daemon, self.turns // 20
        if at in (3 * part, 8 * part):
            status, answer = daemon.host.call("POST", f"/api/agents/{self.agent}/session/compact", {})
            self.check(f"turn {at}: compacts on request", status == 200, answer)
        if at in (5 * part, 12 * part):
            daemon.metrics()
            daemon.kill_tools()
            self.killed_at = at
        if at in (5 * part + 6, 12 * part + 6):
            self.check(f"turn {at}: hooks left requests in the spool", len(daemon.spooled()) >= 12, f"{len(daemon.spooled())} files")
            daemon.reconnect()
            daemon.wait_for_tools()
        if at == 10 * part:
            daemon.metrics()
            daemon.host.stop()
            daemon.start()
        if at == 15 * part:
            daemon.metrics()
            status, answer = daemon.host.call("POST", f"/api/agents/{self.agent}/session/reset", {})
            self.check(f"turn {at}: resets", status == 200, answer)
            # The last reply before a reset is shown to no hook (docs/hosts.md).
            self.not_kept.add(self.wanted[-1][0])

    def run(self):
        daemon, check = self.daemon, self.check
        check("lcm is installed", daemon.installed.returncode == 0, daemon.installed.stderr)
        daemon.start()
        self.agent = daemon.agent("sailor")
        folder = daemon.home / "workspaces" / "agents" / "sailor"
        folder.mkdir(parents=True, exist_ok=True)
        for at in range(5, self.turns, 23):
            (folder / f"notes{at}.txt").write_text(notes(at))
        daemon.own(folder)
        began = time.monotonic()
        for at in range(self.turns):
            self.between(at)
            self.turn(at)
        talked = time.monotonic() - began
        check("every turn is answered", not self.bad_answers, self.bad_answers[:3])
        self.all_is_found()
        metrics = daemon.metrics()
        failures = {hook: told["failures"] for hook, told in metrics.items() if told["failures"]}
        check("no hook failed", not failures, failures or "")
        check("every request is valid, fits the window and has the newest request whole", not daemon.model.faults, daemon.model.faults[:4])
        checked = daemon.lcm("--home", daemon.data, "check")
        check("check is green", checked.returncode == 0, checked.stdout[-300:] + checked.stderr[-300:] if checked.returncode else "")
        self.export_has_all_once_in_order()
        daemon.collect_traces()
        compacted = metrics.get("compact", {}).get("calls")
        print(f"      {self.turns} turns in {talked:.0f} s and {time.monotonic() - began - talked:.0f} s to look all up, {daemon.model.count} requests, the largest "
              f"{daemon.model.largest} of {daemon.window} tokens, {compacted} compactions since the start; p50/max: {daemon.latencies()}")
        return check.end()

    def all_is_found(self):
        originals = [original for original in self.wanted if original[0] not in self.not_kept]
        words = list(dict.fromkeys((word, role) for word, role, _ in originals if word))
        # Two pages at once and the host's own prompt are more than the smallest windows hold; then the middle of one is left out.
        together = 2 if self.daemon.window >= 16_384 else 1
        found = self.daemon.find(self.agent, words, together, scope="all")
        unlike = []
        for word, _, said in originals:
            if word is None:
                continue
            told = found.get(word)
            if isinstance(said, tuple):
                results = {part.get("tool_use_id"): part.get("content") for part in told} if isinstance(told, list) else {}
                is_equal = results.get(said[0]) == said[1]
            else:
                is_equal = told in (said, [{"type": "text", "text": said}])
            if not is_equal:
                unlike.append(f"{word}: {'not found' if told is None else json.dumps(told, ensure_ascii=False)[:150]}")
        self.check(f"{len(words)} words are looked up, {len(originals)} originals found and equal", not unlike, f"{len(unlike)}: {unlike[:4]}" if unlike else "")
        cut = found.get(None, [])
        self.check("every answer of the tools is shown whole", not cut, f"{len(cut)}: {[(word, (text or 'nothing')[:80], (text or '')[-150:]) for word, text in cut[:3]]}" if cut else "")

    def export_has_all_once_in_order(self):
        exported = self.daemon.lcm("--home", self.daemon.data, "export")
        self.check("export", exported.returncode == 0, exported.stderr)
        places = {}
        for place, line in enumerate(exported.stdout.splitlines()):
            entry = json.loads(line)
            if entry.get("lcm") != "message":
                continue
            content, role = entry["message"]["content"], entry["message"]["role"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                key = (part["tool_use_id"], part["content"]) if part["type"] == "tool_result" else (role, part.get("text"))
                places.setdefault(key, []).append(place)
        order, wrong = [], []
        for word, role, said in self.wanted:
            key = said if isinstance(said, tuple) else (role, said)
            if word in self.not_kept:
                continue
            at = places.get(key, [])
            if len(at) != 1:
                wrong.append(f"{word or key[0]} is there {len(at)} times")
            order += at[:1]
        self.check("export has each original once", not wrong, f"{len(wrong)}: {wrong[:5]}" if wrong else "")
        late = [self.wanted[at][0] for at in range(1, len(order)) if order[at] < order[at - 1]]
        self.check("export has them in the order in which they were said", not late, f"{len(late)}: {late[:5]}" if late else "")


def main():
    arguments = options(__doc__)
    arguments.add_argument("--turns", type=int, default=200)
    arguments.add_argument("--window", type=int, default=16_384)
    talk = Talk(arguments.parse_args())
    try:
        code = talk.run()
    finally:
        if sys.exc_info()[0] is not None:
            print("FAIL  the conversation did not come to its end", flush=True)
            print(talk.daemon.host.log.read_text(errors="replace")[-1500:], file=sys.stderr)
        talk.daemon.end()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
