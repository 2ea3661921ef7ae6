"""Short conversations through a released LibreFang daemon, each in another way to run lcm there.

    modes.py --host LIBREFANG --program LCM_CLI --shared DIR [--only MODE,MODE]

Protects what docs/hosts.md promises beside the long conversation (`talk.py`): that lcm works first in a stack of plugins, as
the engine of one agent, for some agents only, and in the host's `stable_prefix_mode`; that no agent, session or person ever sees
what another said, in a window or by a tool; and that a private turn leaves nothing behind but a request in the spool, and
after a day not even that. Each mode has a daemon of its own; each conversation is checked for answers and valid windows as it
goes, and for what its tools find.
"""
import json
import os
import re
import sys
import time
import uuid

import desk
from daemon import Checks, Daemon, options, read_answer

WINDOW = 16_384
DAY_MS = 24 * 60 * 60 * 1000
IDLE_PLUGIN = """name = "{name}"
version = "0.1.0"
[hooks]
runtime = "native"
ingest = "hooks/idle"
after_turn = "hooks/idle"
"""


def reading(*numbers, reply="that was read"):
    """A turn that reads pages of the desk."""
    yield [("mcp_desk_read", {"number": number}) for number in numbers]
    return reply


def asking(words, scopes, answers):
    """A turn that asks for words, in each scope; `answers` gets a pair of the word and what was answered."""
    for word in words:
        told = yield [("mcp_lcm_grep", {"query": word, "session_scope": scope}) for scope in scopes]
        answers += [(word, text or "") for text in told]
    return "those were the questions"


def add_idle_plugins(daemon, *names):
    for name in names:
        hooks = daemon.home / "plugins" / name / "hooks"
        hooks.mkdir(parents=True)
        (hooks.parent / "plugin.toml").write_text(IDLE_PLUGIN.format(name=name))
        (hooks / "idle").write_text("#!/bin/sh\ncat >/dev/null\necho '{}'\n")
        (hooks / "idle").chmod(0o755)


class Modes:
    def __init__(self, given):
        self.given, self.check, self.words = given, Checks(), 0

    def daemon(self, **more):
        return Daemon(self.given, WINDOW, **more)

    def ten_turns(self, name, daemon, agent, is_kept=True, **fields):
        """A conversation of ten turns with calls, and what the agent finds of it."""
        self.words += 1
        seed, bad, wanted = self.words * 100, [], []
        before = len(daemon.model.faults)
        for at in range(10):
            reply = f"answer{seed + at:05d}a of {name}"
            script = reading(7 * seed + at, reply=reply) if at % 3 == 1 else None
            turn = daemon.say(agent, f"ask{seed + at:05d}q " + f"words {at} " * 40 + "end", script, reply, **fields)
            if (turn["status"], turn["reply"]) != (200, reply):
                bad.append(f"{at}: {turn['status']} {str(turn['answer'])[:200]}")
            wanted += [(f"ask{seed + at:05d}q", "user", turn["text"]), (f"answer{seed + at:05d}a", "assistant", reply)]
            if at % 3 == 1:
                wanted.append((desk.word_of(7 * seed + at), None, desk.page(7 * seed + at)))
        self.check(f"{name}: ten turns are answered", not bad, bad[:2] or "")
        if is_kept:
            found = daemon.find(agent, [(word, role) for word, role, _ in wanted], **fields)
            lost = [word for word, _, said in wanted if not self.is_it(found.get(word), said)]
            self.check(f"{name}: {len(wanted)} texts are found and equal", not lost, f"{lost[:5]} {str(found.get(None))[:300]}" if lost else "")
        faults = daemon.model.faults[before:]
        self.check(f"{name}: every window is valid and has the newest request", not faults, faults[:3] or "")
        return seed

    @staticmethod
    def is_it(found, said):
        """Whether what was found is what was said; the host puts the name of who speaks in front of a text."""
        if isinstance(found, list):
            return any(part.get("content") == said or part.get("text", "").endswith(said) for part in found)
        return isinstance(found, str) and re.sub(r"^\[\w+\]: ", "", found) == said

    # -- the modes

    def stack(self):
        """Other plugins beside lcm, which installing puts first."""
        daemon = self.daemon(config='[context_engine]\nplugin_stack = ["other", "another"]\n', prepare=lambda daemon: add_idle_plugins(daemon, "other", "another"))
        with Running(daemon):
            settings = (daemon.home / "config.toml").read_text()
            first = re.search(r"plugin_stack\s*=\s*\[\s*\"(\w+)\"", settings)
            self.check("stack: lcm is first", first and first[1] == "lcm", first and first[0])
            self.ten_turns("stack", daemon, daemon.agent("one"))

    def one_agent(self):
        """An agent whose manifest names lcm, where the daemon's settings name no plugin."""
        def forget(daemon):
            path = daemon.home / "config.toml"
            path.write_text(re.sub(r'(?m)^plugin = "lcm"\n', "", path.read_text()))
        daemon = self.daemon(prepare=forget)
        with Running(daemon):
            with_lcm = daemon.agent("with", more='[context_engine]\nplugin = "lcm"')
            without = daemon.agent("without")
            self.ten_turns("one agent: with lcm", daemon, with_lcm)
            seed = self.ten_turns("one agent: without", daemon, without, is_kept=False)
            answers = []
            daemon.say(without, "what was it", asking([f"ask{seed:05d}q", "ask"], ["current", "all"], answers))
            told = [text for _, text in answers]
            self.check("one agent: the other finds nothing", all("plugin has to be the context engine" in text or '"results":[]' in text for text in told), told[:2])
            kept = daemon.lcm("--home", daemon.data, "export", "--agent", without).stdout
            self.check("one agent: of the other nothing is kept", '"lcm":"message"' not in kept, kept[:200] if '"lcm":"message"' in kept else "")

    def some_agents(self):
        """`only_for_agent_ids`, written into plugin.toml while the daemon runs; it counts when that starts anew."""
        daemon = self.daemon()
        with Running(daemon):
            one, other = daemon.agent("one"), daemon.agent("other")
            manifest = daemon.home / "plugins" / "lcm" / "plugin.toml"
            manifest.write_text(manifest.read_text().replace("[hooks]\n", f'[hooks]\nonly_for_agent_ids = ["{one}"]\n'))
            status, answer = daemon.host.call("POST", "/api/plugins/lcm/reload", {})
            self.check("some agents: an edited plugin.toml is reloaded", status == 200, answer if status != 200 else "")
            self.ten_turns("some agents: after a reload", daemon, one)
            daemon.metrics()
            daemon.host.stop()
            daemon.start()
            self.ten_turns("some agents: after a new start", daemon, one)
            seed = self.ten_turns("some agents: the other", daemon, other, is_kept=False)
            kept = daemon.lcm("--home", daemon.data, "export").stdout
            self.check("some agents: of the other nothing is kept", f"ask{seed + 3:05d}q" not in kept)

    def stable_prefix(self):
        """The host's mode for prompt caches: nothing is recalled, and the beginning of a request stays as it was."""
        daemon = self.daemon(top="stable_prefix_mode = true\n")
        with Running(daemon):
            agent = daemon.agent("one")
            before = len(daemon.model.main_requests())
            self.ten_turns("stable prefix", daemon, agent)
            requests = daemon.model.main_requests()[before:]
            recalled = [at for at, request in enumerate(requests) for message in request["messages"]
                        if message["role"] == "user" and daemon.mock_llm.text_of(message["content"]).startswith("[lcm: recalled")]
            self.check("stable prefix: nothing is recalled", not recalled, recalled or "")
            daemon.kill_tools()
            daemon.reconnect()
            daemon.wait_for_tools()
            before = len(daemon.model.main_requests())
            daemon.say(agent, "what of ask00700q and answer00701a, the words 3 words 3 and words 1")
            recalled = [message for request in daemon.model.main_requests()[before:] for message in request["messages"]
                        if message["role"] == "user" and daemon.mock_llm.text_of(message["content"]).startswith("[lcm: recalled")]
            self.check("stable prefix: nor after the process of the tools died", not recalled, str(recalled)[:200] if recalled else "")
            ingests = daemon.metrics().get("ingest", {}).get("calls")
            self.check("stable prefix: the host is in that mode", ingests == 0, f"{ingests} calls of ingest")

    def apart(self):
        """Agents, sessions and persons; and what the daemon says about the plugin."""
        daemon = self.daemon()
        with Running(daemon):
            self.daemon_says(daemon)
            one, other = daemon.agent("one"), daemon.agent("other")
            bob = {"sender_id": "bob-1", "sender_name": "Bob", "channel_type": "telegram"}
            # Of another channel: those who speak in one channel are in one session of the host.
            ann = {"sender_id": "ann-1", "sender_name": "Ann", "channel_type": "discord"}
            talks = {"owner": (one, {}), "session": (one, {"session_id": str(uuid.uuid4())}), "Bob": (one, bob), "Ann": (one, ann),
                     "other agent": (other, {}), "Bob at the other": (other, bob)}
            secrets = {name: f"value{at}secret" for at, name in enumerate(talks)}
            bad, windows = [], {name: [] for name in talks}
            for at in range(10):
                for name, (agent, fields) in talks.items():
                    what = f"the harbour has the number {secrets[name]}" if at < 2 else f"and what about the harbour now, {at}"
                    script = reading(at * 14, reply=f"done {at}") if at % 4 == 3 else None
                    turn = daemon.say(agent, what, script, f"done {at}", **fields)
                    windows[name] += turn["windows"]
                    if turn["status"] != 200:
                        bad.append(f"{name} {at}: {turn['status']} {str(turn['answer'])[:200]}")
            self.check("apart: sixty turns of six conversations are answered", not bad, bad[:2] or "")
            for name, (agent, fields) in talks.items():
                answers = []
                turn = daemon.say(agent, "who knows", asking(["harbour number", "secret"], ["current", "all"], answers), **fields)
                windows[name] += turn["windows"]
                said = [message for shown in windows[name] for message in shown if message["role"] != "system"]
                texts = " ".join(daemon.mock_llm.text_of(message.get("content")) for message in said)
                seen = [whose for whose in talks if whose != name and secrets[whose] in texts]
                self.check(f"apart: {name} sees nobody else's words in {len(windows[name])} windows", not seen, seen or "")
                found = [whose for whose in talks if whose != name and any(secrets[whose] in text for _, text in answers)]
                mine = sum(secrets[name] in text for word, text in answers if word == "harbour number")
                self.check(f"apart: {name} finds its own by tool in both scopes, and nobody else's", not found and mine == 2,
                           f"others {found}, own {mine} of 2: {answers[0][1][:200]}" if found or mine != 2 else "")
            # By their very handles, too.
            handles = {}
            exported = [json.loads(line) for line in daemon.lcm("--home", daemon.data, "export").stdout.splitlines()]
            for entry in exported:
                text = json.dumps(entry.get("message", ""))
                for name in talks:
                    if f"the number {secrets[name]}" in text:
                        handles.setdefault(name, "msg_" + entry["id"][:16])
            self.check("apart: each is kept", set(handles) == set(talks), set(talks) - set(handles) or "")
            leaks = []
            for name, (agent, fields) in talks.items():
                others, answers = [handle for whose, handle in handles.items() if whose != name], []
                daemon.say(agent, "what is that", expanding(others, answers), **fields)
                leaks += [f"{name}: {text[:150]}" for text in answers if "secret" in text]
            self.check("apart: nobody expands what another said", not leaks, leaks[:3] or "")
            faults = daemon.model.faults
            self.check("apart: every window is valid and has the newest request", not faults, faults[:3] or "")

    def across(self):
        """`tools.across_sessions`: a person's other sessions, but not those of who shares a channel with them."""
        daemon = self.daemon(settings="[tools]\nacross_sessions = true\n")
        with Running(daemon):
            agent = daemon.agent("one")
            bob, ann = {"sender_id": "bob-1", "sender_name": "Bob"}, {"sender_id": "ann-1", "sender_name": "Ann"}
            daemon.say(agent, "the harbour number is value0secret", channel_type="signal", **bob)
            daemon.say(agent, "good morning", channel_type="telegram", **bob)
            daemon.say(agent, "good morning, Bob", channel_type="telegram", **ann)
            for name, person, is_his in (("Ann", ann, False), ("Bob", bob, True)):
                answers = []
                daemon.say(agent, "who knows", asking(["harbour", "number"], ["all", "all"], answers), channel_type="telegram", **person)
                finds = any("value0secret" in text for _, text in answers)
                self.check(f"across: {name} {'finds' if is_his else 'does not find'} what Bob said alone", finds == is_his, answers[-1][1][:200])

    def daemon_says(self, daemon):
        doctor = [plugin for plugin in daemon.host.get("/api/plugins/doctor").get("plugins", []) if plugin["name"] == "lcm"]
        self.check("daemon: doctor accepts the plugin", doctor and doctor[0]["runtime_available"] and doctor[0]["hooks_valid"], "" if doctor else "not listed")
        lint = daemon.host.get("/api/plugins/lcm/lint")
        self.check("daemon: lint finds no error", lint.get("ok") and not lint.get("errors"), lint.get("errors") or "")
        metrics = daemon.metrics()
        shape = {"calls", "successes", "failures", "total_ms"}
        self.check("daemon: metrics name each hook", all(set(told) >= shape for told in metrics.values()) and metrics.get("bootstrap", {}).get("successes") == 1,
                   metrics.get("bootstrap"))
        doctor = daemon.lcm("doctor", "librefang", "--home", daemon.home)
        self.check("daemon: `lcm-cli doctor librefang` finds nothing wrong", doctor.returncode == 0, doctor.stdout + doctor.stderr if doctor.returncode else "")

    def private(self):
        """Private turns: with a call, and while nobody serves."""
        daemon = self.daemon()
        with Running(daemon):
            agent = daemon.agent("one")
            self.ten_turns("private: public before", daemon, agent)
            secrets = [b"hidden1word", desk.word_of(700).encode(), b"hidden2reply", b"hidden3word", desk.word_of(714).encode(), b"hidden4reply", b"hidden5word"]
            bad = []

            def secretly(text, script=None, reply="well"):
                turn = daemon.say(agent, text, script, reply, incognito=True)
                if turn["status"] != 200 or turn["reply"] != reply:
                    bad.append(f"{text}: {turn['status']} {str(turn['answer'])[:200]}")

            secretly("hidden1word", reading(700, reply="hidden2reply"), "hidden2reply")
            daemon.say(agent, "a public turn")
            daemon.metrics()
            daemon.kill_tools()
            secretly("hidden3word", reading(714, reply="hidden4reply"), "hidden4reply")
            secretly("hidden5word")
            left = len(daemon.spooled())
            daemon.say(agent, "another public turn")
            daemon.metrics()
            daemon.reconnect()
            daemon.wait_for_tools()
            daemon.say(agent, "a third public turn")
            daemon.metrics()
            self.check("private: the turns are answered", not bad and left > 0, bad[:2] or f"{left} requests in the spool")
            self.nowhere("private", daemon, agent, secrets, but="spool")
            waiting = b"".join(path.read_bytes() for path in daemon.spooled())
            self.check("private: what was seen waits in the spool", any(secret in waiting for secret in secrets), f"{len(daemon.spooled())} files")
            # Two days later.
            for path in daemon.spooled():
                moment, rest = path.name.split("-", 1)
                path.rename(path.with_name(f"{int(moment) - 2 * DAY_MS:016d}-{rest}"))
            kept = [path.name for path in daemon.spooled()]
            daemon.say(agent, "a public turn two days later")
            daemon.metrics()
            old = [name for name in kept if (daemon.data / "spool" / name).exists()]
            self.check("private: what waited for two days is gone after the next hook", not old, f"{len(old)} of {len(kept)} are there")
            self.nowhere("private, two days later", daemon, agent, secrets)
            self.ten_turns("private: public after", daemon, agent)

    def nowhere(self, name, daemon, agent, secrets, but=None):
        """The secrets are in no file, told by no tool and in no export."""
        in_files = []
        for path in daemon.data.rglob("*"):
            if path.is_file() and not (but and but in path.relative_to(daemon.data).parts):
                content = path.read_bytes()
                in_files += [f"{secret.decode()} in {path.relative_to(daemon.data)}" for secret in secrets if secret in content]
        self.check(f"{name}: no file has it{f' but the {but}' if but else ''}", not in_files, in_files[:5] or "")
        exported = daemon.lcm("--home", daemon.data, "export").stdout.encode()
        told = [secret.decode() for secret in secrets if secret in exported]
        self.check(f"{name}: no export has it", not told, told or "")
        # The question must not be what is found: it asks for the beginnings.
        answers = []
        daemon.say(agent, "is there anything", asking(["/hidden[0-9]/", "the hidden word", "desk 700"], ["current", "all"], answers))
        told = [word for word, text in answers for secret in secrets if secret.decode() in text]
        is_answered = all(read_answer(text) for _, text in answers)
        self.check(f"{name}: no tool finds it", not told and is_answered, told or ("" if is_answered else answers[:2]))

    def run(self):
        modes = [self.stack, self.one_agent, self.some_agents, self.stable_prefix, self.apart, self.across, self.private]
        for mode in modes:
            if self.given.only and mode.__name__ not in self.given.only.split(","):
                continue
            began = time.monotonic()
            try:
                mode()
            except Exception as error:  # a mode that breaks is a failed check; the others are still of use
                self.check(f"{mode.__name__}: comes to its end", False, f"{type(error).__name__}: {error}")
            print(f"      {mode.__name__}: {time.monotonic() - began:.0f} s", flush=True)
        return self.check.end()


def expanding(handles, answers):
    """A turn that expands each handle."""
    for handle in handles:
        answers += yield [("mcp_lcm_expand", {"id": handle})]
    return "those were the handles"


class Running:
    """A daemon that runs inside of a `with`."""

    def __init__(self, daemon):
        self.daemon = daemon

    def __enter__(self):
        try:
            return self.daemon.start()
        except BaseException:
            self.daemon.end()
            raise

    def __exit__(self, *_):
        # Nothing of this home is needed any more, so nobody waits for the daemon's farewell.
        self.daemon.host.process.kill()
        self.daemon.end()


def main():
    arguments = options(__doc__)
    arguments.add_argument("--only", help="these modes, with commas between")
    code = Modes(arguments.parse_args()).run()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
