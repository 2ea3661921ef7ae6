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

# No call here may take so long; what is waited for on purpose takes a fraction of it.
BOUND_S = 30


class BadCases(Hosted):
    def kept(self, session="s"):
        """Every message of a session, as the program gives it back."""
        done = subprocess.run([real_program(), "--home", self.data, "export", session],
                              capture_output=True, text=True, check=True, timeout=60)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return [record["message"] for record in records if "message" in record]

    def assert_kept(self, messages, session="s"):
        self.assertEqual(self.kept(session), messages)

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

        def run():
            try:
                given.append((call(), None))
            except BaseException as error:
                given.append((None, error))
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(BOUND_S)
        self.assertTrue(given, f"still there after {BOUND_S} s")
        told, error = given[0]
        if error is not None:
            raise error
        return told

    def test_a_child_killed_in_the_middle_of_each_call_costs_nothing(self):
        messages = talk(50)
        request = {"conversation_messages": messages, "incoming_message": messages[-1], "budget_tokens": 90_000}
        calls = {
            "on_turn_complete": lambda engine: engine.on_turn_complete(messages),
            "on_session_end": lambda engine: engine.on_session_end("on_session_end", messages),
            "select_context": lambda engine: engine.select_context(messages, **request),
            "preflight": lambda engine: engine.should_compress_preflight(messages),
            "tool": lambda engine: engine.handle_tool_call("lcm_grep", {"query": "harbour"}, messages=messages),
            "compress": lambda engine: engine.compress(messages, current_tokens=90_000),
        }
        self.engine()
        self.restless()
        for name, call in calls.items():
            with self.subTest(name):
                engine, client = self.engine(name), plugin.Client(self.data)
                client.status()
                pid = client.state()["pid"]
                # It has read nothing of the call when it is killed, or some of it, but has answered nothing.
                os.kill(pid, signal.SIGSTOP)
                timer = threading.Timer(0.05, os.kill, (pid, signal.SIGKILL))
                timer.start()
                given = self.in_time(lambda: call(engine))
                timer.join()
                if name not in ("select_context", "preflight"):
                    self.assert_kept(messages, name)
                if name == "preflight":
                    self.assertTrue(given)
                if name == "tool":
                    self.assertTrue(json.loads(given).get("results"), given)
                if name == "compress":
                    self.assertEqual(problems(given), [])
                    self.assertIn("[lcm:fold", json.dumps(given))

    def test_a_child_killed_at_any_moment_loses_and_doubles_nothing(self):
        messages, acknowledged, killed, is_over, moments = [], 0, [], threading.Event(), random.Random(1)
        engine, client = self.engine(), plugin.Client(self.data)
        self.restless()

        def kill_now_and_then():
            while not is_over.wait(moments.uniform(0.0, 0.03)):
                pid = client.state()["pid"]
                if pid and pid not in killed:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        try:
            for at in range(150):
                messages = messages + talk(1, words=100, about=f"pier{at}x")[:-1]
                engine.select_context(messages, conversation_messages=messages, incoming_message=messages[-1], budget_tokens=90_000)
                engine.on_turn_complete(messages)
                with contextlib.suppress(plugin.LcmError):
                    client.turn(engine._session(), messages)
                    acknowledged = len(messages)
        finally:
            is_over.set()
            killer.join()
        self.assertGreater(len(killed), 10)
        kept = self.kept()
        self.assertEqual(kept, messages[:len(kept)])
        self.assertGreaterEqual(len(kept), acknowledged)
        engine.on_turn_complete(messages)
        self.assert_kept(messages)

    def test_a_child_that_is_stopped_costs_a_look_up_no_more_than_its_time_and_a_question_to_a_model_has_more(self):
        engine, client = self.engine(), plugin.Client(self.data)
        client.status()
        pid = client.state()["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(lambda: os.path.exists(f"/proc/{pid}") and os.kill(pid, signal.SIGCONT))
        with mock.patch.multiple(plugin, TOOL_S=0.5, ASK_S=0.75), mock.patch.object(plugin.Client, "tool", autospec=True, side_effect=plugin.Client.tool) as tool:
            for name, deadline in (("lcm_grep", 0.5), ("lcm_expand_query", 0.75)):
                given = self.in_time(lambda: engine.handle_tool_call(name, {"query": "x", "prompt": "x"}))
                self.assertIn("error", json.loads(given))
                self.assertEqual(tool.call_args.kwargs["deadline"], deadline)
        self.assertLess(plugin.TOOL_S, plugin.ASK_S)

    def test_what_is_so_for_a_while_is_said_once_in_a_while(self):
        plugin._SAID.clear()
        with mock.patch.object(plugin.logger, "log") as log:
            for seconds in (58, 57):
                plugin._log_failure("turn", plugin.LcmUnavailable(0, f"it does not start; it is tried again in {seconds} s"))
            plugin._log_failure("select", plugin.LcmError(0, "the store is held"))
            levels = [call.args[0] for call in log.call_args_list]
            self.assertEqual(levels, [logging.WARNING, logging.DEBUG, logging.WARNING])
            with mock.patch.object(plugin, "SAY_AGAIN_S", 0.0):
                plugin._log_failure("select", plugin.LcmError(0, "the store is held"))
            self.assertEqual(log.call_args.args[0], logging.WARNING)

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

    def test_a_store_that_cannot_be_repaired_for_want_of_room_is_said_to_be_so(self):
        engine, messages = self.engine(), talk(4)
        engine.on_turn_complete(messages)
        pid = plugin.Client(self.data).state()["pid"]
        os.kill(pid, signal.SIGKILL)
        self.program(f"trap '' XFSZ\nulimit -f 1\nexec {shlex.quote(real_program())} \"$@\"\n")
        done = subprocess.run([os.environ["LCM_CLI"], "--home", self.data, "status"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot be repaired at present", done.stderr)
        self.assertIn("room on the disk", done.stderr)
        os.environ["LCM_CLI"] = self.was["LCM_CLI"]
        self.assert_kept(messages)

    def test_a_program_that_talks_nonsense_is_not_believed(self):
        messages = talk(10)
        answer = '{"jsonrpc":"2.0","id":1,"result":{"protocol":1,"base":5,"splices":[[9,9]]}}'
        scripts = {
            "no JSON": "yes nonsense",
            "no object": "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}'; cat > /dev/null",
            "no line": "head -c 3000000 /dev/zero; cat > /dev/null",
            "nothing": "exit 3",
            "always the first answer": f"while read -r line; do echo '{answer}'; done",
        }
        for name, script in scripts.items():
            with self.subTest(name):
                self.program(script)
                bounds = mock.patch.multiple(plugin, START_S=1.0, TURN_S=1.0, COMPRESS_S=1.0, TOOL_S=1.0)
                # What starts children is that copy of the plugin which was loaded first.
                with mock.patch.dict(plugin._FIRST, START_S=1.0), bounds:
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
                Model.answer, Model.asked = answer, 0
                engine, messages = self.engine(f"s{nth}"), talk(40, about=f"pier{nth}x")
                shorter = engine.compress(messages, current_tokens=90_000)
                self.assertIn("[lcm:fold", json.dumps(shorter))
                self.assertEqual(problems(shorter), [])
                self.assertNotIn("sorry", json.dumps(shorter))
                self.assertGreater(Model.asked, 0)


if __name__ == "__main__":
    logging.disable()
    unittest.main()
