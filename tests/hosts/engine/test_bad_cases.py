"""What goes wrong at night: a child that is killed, stopped or talks nonsense, a store that somebody holds, a disk that is full,
a model that refuses. The turn goes on, nothing that was said is lost or there twice, and a person can see why.
"""
import contextlib
import fcntl
import json
import logging
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from host import ContextCompressor, Database, Hosted, Model, plugin, problems, real_program, talk

# Of a call that meets a store that somebody else holds: what lcm waits for a lock, and what the machine takes.
BOUND_S = 30


class BadCases(Hosted):
    def kept(self, session="s"):
        """Every message of a session, as the program gives it back."""
        done = subprocess.run([real_program(), "--home", self.data, "export", session],
                              capture_output=True, text=True, check=True, timeout=60)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return [record["message"] for record in records if "message" in record]

    def assert_kept(self, messages):
        self.assertEqual(self.kept(), messages)

    def program(self, script):
        """Lets lcm be this shell script from the next start on."""
        plugin.Client(self.data).close()
        os.makedirs(self.hermes_home, exist_ok=True)
        path = os.path.join(self.hermes_home, "program")
        pathlib.Path(path).write_text("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        os.environ["LCM_CLI"] = path

    def restless(self):
        """Children may be started as often as they end, and at once."""
        place = plugin._REGISTRY.places[self.data]
        place.starts_max, place.pauses_s = 10_000, (0.0,)

    def in_time(self, call):
        """What a call gives, which may not take for ever."""
        given = []
        thread = threading.Thread(target=lambda: given.append(call()))
        thread.start()
        thread.join(BOUND_S)
        self.assertFalse(thread.is_alive(), f"still there after {BOUND_S} s")
        return given[0]

    def test_a_child_killed_in_the_middle_of_each_call_costs_nothing(self):
        messages = talk(40)
        request = {"conversation_messages": messages, "incoming_message": messages[-1], "budget_tokens": 90_000}
        calls = {
            "on_turn_complete": lambda engine: engine.on_turn_complete(messages),
            "select_context": lambda engine: engine.select_context(messages, **request),
            "preflight": lambda engine: engine.should_compress_preflight(messages),
            "tool": lambda engine: engine.handle_tool_call("lcm_grep", {"query": "harbour"}, messages=messages),
            "usage": lambda engine: engine.update_from_response({"prompt_tokens": 50_000}),
            "status": lambda engine: plugin._command("status"),
            "on_session_end": lambda engine: engine.on_session_end("s", messages),
            "compress": lambda engine: engine.compress(messages, current_tokens=90_000),
        }
        self.engine()
        self.restless()
        for name, call in calls.items():
            with self.subTest(name):
                engine = self.engine()
                client = plugin.Client(self.data)
                client.status()
                pid = client.state()["pid"]
                # It has read nothing of the call when it is killed, or some of it, but has answered nothing.
                os.kill(pid, signal.SIGSTOP)
                timer = threading.Timer(0.05, os.kill, (pid, signal.SIGKILL))
                timer.start()
                given = self.in_time(lambda: call(engine))
                timer.join()
                if name == "compress":
                    self.assertEqual(problems(given), [])
                    self.assertIn("[lcm:fold", json.dumps(given))
        self.engine().on_turn_complete(messages)
        self.assert_kept(messages)

    def test_a_child_killed_at_any_moment_loses_and_doubles_nothing(self):
        messages, killed, is_over, moments = [], [], threading.Event(), random.Random(1)

        def kill_now_and_then():
            while not is_over.wait(moments.uniform(0.0, 0.03)):
                pid = plugin.Client(self.data).state()["pid"]
                if pid and pid not in killed:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

        engine = self.engine()
        self.restless()
        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        try:
            for at in range(150):
                messages = messages + talk(1, words=100, about=f"pier{at}x")[:-1]
                engine.select_context(messages, conversation_messages=messages, incoming_message=messages[-1], budget_tokens=90_000)
                engine.on_turn_complete(messages)
        finally:
            is_over.set()
            killer.join()
        engine.on_turn_complete(messages)
        self.assertGreater(len(killed), 10)
        self.assert_kept(messages)

    def test_a_store_that_a_stopped_process_holds_is_waited_for_and_no_longer(self):
        engine, messages = self.engine(), talk(40)
        engine.on_turn_complete(messages[:40])
        with open(os.path.join(self.data, "CURRENT"), "rb") as current:
            fcntl.flock(current, fcntl.LOCK_EX)
            given = self.in_time(lambda: engine.compress(messages, current_tokens=90_000))
            self.assertTrue(given is messages or given == [messages[0], messages[-1]], "neither the input nor the host's own")
            self.assertTrue(engine._last_summary_error or engine._last_compress_aborted)
            self.in_time(lambda: engine.select_context(
                messages, conversation_messages=messages, incoming_message=messages[-1], budget_tokens=90_000))
            self.in_time(lambda: engine.on_turn_complete(messages))
        self.assertIn("[lcm:fold", json.dumps(engine.compress(messages, current_tokens=90_000)))
        self.assert_kept(messages)

    def test_on_a_full_disk_the_host_goes_on_and_what_was_said_is_kept_when_there_is_room(self):
        engine, messages = self.engine(), talk(40)
        engine.on_turn_complete(messages[:4])
        self.restless()
        real = f"exec {shlex.quote(real_program())} \"$@\"\n"
        # Writing beyond its size fails as on a full disk, for this program alone. `ulimit` counts 512 bytes.
        size = max(path.stat().st_size for path in pathlib.Path(self.data).iterdir())
        self.program(f"trap '' XFSZ\nulimit -f {size // 512}\n" + real)
        given = self.in_time(lambda: engine.compress(messages, current_tokens=90_000))
        self.assertEqual(given, [messages[0], messages[-1]])
        self.assertEqual(ContextCompressor.made, 1)
        self.assertIn("lcm is not available", engine._last_summary_error)
        self.in_time(lambda: engine.on_turn_complete(messages))
        self.assertIn("not in use", plugin._command("status"))
        self.program(real)
        engine.on_turn_complete(messages)
        self.assertIn("[lcm:fold", json.dumps(engine.compress(messages, current_tokens=90_000)))
        self.assert_kept(messages)

    def test_a_program_that_talks_nonsense_is_not_believed(self):
        messages = talk(10)
        for script in ("yes nonsense", "printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\\n'; cat >/dev/null", "head -c 3000000 /dev/zero; cat > /dev/null",
                       "exit 3", "while read -r line; do echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocol\":1,\"base\":5,\"splices\":[[9,9]]}}'; done"):
            with self.subTest(script):
                self.program(script)
                # What starts children is that copy of the plugin which was loaded first.
                with mock.patch.dict(plugin._FIRST, START_S=1.0), mock.patch.multiple(plugin, TURN_S=1.0, COMPRESS_S=1.0, TOOL_S=1.0):
                    engine = self.engine(db=Database())
                    given = self.in_time(lambda: engine.compress(messages, current_tokens=90_000))
                    self.assertIn(given, (messages, [messages[0], messages[-1]]))
                    self.in_time(lambda: engine.on_turn_complete(messages))
                    self.assertIn("error", json.loads(engine.handle_tool_call("lcm_grep", {"query": "x"})))

    def test_a_model_that_refuses_or_is_too_slow_is_done_without(self):
        def too_slow():
            raise TimeoutError("the model did not answer in time")
        for nth, answer in enumerate(("I'm sorry, but I can't help with that.", "", "no " * 40_000, too_slow)):
            with self.subTest(nth):
                Model.answer = answer
                engine, messages = self.engine(f"s{nth}"), talk(40, about=f"pier{nth}x")
                shorter = engine.compress(messages, current_tokens=90_000)
                self.assertIn("[lcm:fold", json.dumps(shorter))
                self.assertEqual(problems(shorter), [])
                self.assertNotIn("sorry", json.dumps(shorter))
                self.assertGreater(Model.asked, 0)


if __name__ == "__main__":
    logging.disable()
    unittest.main()
