"""The client and the real program: what threads say is kept once, whatever happens to the child.

Method: random moments from a seed; afterwards every message is asked for again, in order.
"""
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import Case, is_there, lcm, real_program

SEED = int(os.environ.get("LCM_TEST_SEED", "20261130"))


def said(session, number):
    return {"role": "user" if number % 2 == 0 else "assistant", "content": f"{session} says number {number}"}


class Program(Case):
    def setUp(self):
        super().setUp()
        self.lcm = self.client(real_program())

    def kept(self):
        """What the store holds, by session, as a person exports it."""
        done = subprocess.run([real_program(), "--home", self.home(), "export"], capture_output=True, check=True, timeout=60)
        kept, messages = {}, []
        for line in done.stdout.splitlines():
            row = json.loads(line)
            if row["lcm"] == "session":
                messages = kept.setdefault(row["name"], [])
            elif row["lcm"] == "message":
                messages.append(row["message"])
        return kept


class Talking(Program):
    def test_a_list_goes_on_from_the_known_one_that_begins_like_it_and_the_others_are_not_looked_at(self):
        kept = [said("s", n) for n in range(20)]
        sent = [{"role": "system", "content": "You are an agent."}, *kept]
        new = said("s", 20)
        with unittest.mock.patch.dict(lcm._FIRST, _differences=unittest.mock.Mock(wraps=lcm._differences)) as first:
            for shown, base in ((kept, "kept"), (sent, "sent")):
                first["_differences"].reset_mock()
                delta, copy = lcm._FIRST["_delta"]("turn", [("kept", kept), ("sent", sent)], [*shown, new])
                self.assertEqual((delta, copy), ({"base": base, "splices": [[len(shown), 0, [new]]]}, [*shown, new]))
                self.assertEqual(first["_differences"].call_count, 1)

    def test_a_list_that_is_too_long_for_one_line_is_sent_in_pieces(self):
        s, messages = lcm.Session("s"), [said("s", n) | {"content": f"number {n} " + "x" * 900} for n in range(100)]
        self.lcm.call("ping")
        connection = lcm._REGISTRY.places[self.lcm.home].connection
        connection.line_bytes_max = 10_000
        self.assertEqual(self.lcm.turn(s, messages)["new"], 100)
        self.assertEqual(self.kept(), {"s": messages})
        # From then on differences are sent, and again in pieces where they are too long.
        messages = messages + [said("s", 100)]
        self.assertEqual(self.lcm.turn(s, messages)["new"], 1)
        messages = messages + [said("s", n) | {"content": f"number {n} " + "y" * 900} for n in range(101, 141)]
        self.assertEqual(self.lcm.turn(s, messages)["new"], 40)
        self.assertEqual(self.kept(), {"s": messages})
        # A message that is too long by itself is nobody's to cut.
        with self.assertRaises(lcm.LcmUnsendable):
            self.lcm.turn(s, messages + [said("s", 141) | {"content": "z" * 20_000}])

    def test_every_verb_is_answered(self):
        s, messages = lcm.Session("s"), [said("s", n) for n in range(6)]
        self.assertEqual(self.lcm.turn(s, messages)["new"], 6)
        self.assertEqual(self.lcm.turn(s, messages, settled=True, time_ms=1_772_712_000_000)["new"], 0)
        due, reason = self.lcm.due(s, 10)
        self.assertFalse(due)
        self.assertIsInstance(reason, str)
        tokens = self.lcm.weigh(messages)
        self.assertGreater(tokens, 20)
        self.assertEqual(self.lcm.weigh(messages, session=s), tokens)
        self.assertIs(self.lcm.compress(s, messages).messages, messages)
        self.assertIs(self.lcm.select(s, messages, budget_tokens=100000).messages, messages)
        self.assertEqual(self.lcm.behind(s, messages), messages)
        self.lcm.usage(s, "model", 100)
        self.assertIsInstance(self.lcm.tools(), list)
        self.assertGreaterEqual(len(self.lcm.tools(all=True)), len(self.lcm.tools()))
        text, is_error = self.lcm.tool(s, "no_such_tool", {}, messages=messages)
        self.assertTrue(is_error)
        self.assertIsInstance(json.loads(text), dict)
        self.assertIn("options", self.lcm.status(s, options={"threshold_tokens": 5000}))
        self.assertEqual(self.lcm.state()["notes"], [])

    def test_what_is_wrong_has_its_code(self):
        for verb, params, code in (("no_verb", {}, -32601), ("turn", {}, -32602), ("initialize", {"protocol": 1}, -32002)):
            with self.assertRaises(lcm.LcmError) as caught:
                self.lcm.call(verb, params)
            self.assertEqual(caught.exception.code, code, verb)

    def test_settings_that_nobody_knows_are_told(self):
        client = self.client(real_program(), home="other", settings={"compress.treshold_tokens": 5, "redact.enabled": True})
        client.call("ping")
        self.assertIn("compress.treshold_tokens", " ".join(client.state()["notes"]))

    def test_a_base_the_child_has_forgotten_is_sent_again(self):
        s, own = lcm.Session("s"), [said("s", n) for n in range(4)]
        self.lcm.turn(s, own)
        # Behind the back of the lists that are remembered: the same session's last bases go.
        for n in range(20):
            self.lcm.call("turn", {"session": s.wire(), "list": {"all": own + [said("s", 4 + k) for k in range(n + 1)]}})
        self.assertEqual(self.lcm.turn(s, own + [said("s", 4 + k) for k in range(21)])["new"], 1)

    def test_a_list_is_folded_by_the_hosts_model_on_the_hosts_thread(self):
        s = lcm.Session("s")
        own = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"step {n}: " + " ".join(f"word{n}x{k}" for k in range(150))} for n in range(60)]
        own.append({"role": "user", "content": "and now?"})
        threads = []

        def model(request):
            threads.append(threading.get_ident())
            words = [word for word in request["material"].split() if word.startswith("word")]
            return "Asked, as THE MODEL says: " + " ".join(words[::40])

        changed = self.lcm.compress(s, own, options={"threshold_tokens": 6000}, summarizer=model, deadline=60)
        self.assertEqual(set(threads), {threading.get_ident()})
        self.assertEqual((changed.answer["model_calls"] > 0, changed.answer["failures"]), (True, []))
        self.assertLess(len(changed.messages), len(own))
        self.assertIs(changed.messages[-1], own[-1])
        self.assertIn("THE MODEL", json.dumps(changed.messages))
        self.assertEqual(self.lcm.behind(s, changed.messages), own)

    def test_a_call_without_a_model_asks_none(self):
        s = lcm.Session("s")
        own = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"step {n}: " + "word " * 200} for n in range(60)]
        own.append({"role": "user", "content": "and now?"})
        changed = self.lcm.compress(s, own, options={"threshold_tokens": 5000}, deadline=60)
        self.assertLess(len(changed.messages), len(own))
        self.assertEqual((changed.answer["model_calls"], changed.answer["failures"]), (0, []))

    def test_a_stopped_child_ends_no_turn(self):
        s = lcm.Session("s")
        self.lcm.turn(s, [said("s", 0)])
        pid = self.lcm.state()["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.assertRaises(lcm.LcmTimeout, self.lcm.turn, s, [said("s", n) for n in range(2)], deadline=0.3)
        os.kill(pid, signal.SIGCONT)
        self.lcm.turn(s, [said("s", n) for n in range(3)], deadline=20)
        self.assertEqual(self.lcm.state()["pid"], pid)
        self.assertEqual(self.kept(), {"s": [said("s", n) for n in range(3)]})

    def test_a_forked_process_speaks_to_the_same_store(self):
        s = lcm.Session("s")
        self.lcm.turn(s, [said("s", 0)])
        pid = self.lcm.state()["pid"]
        fork = os.fork()
        if fork == 0:
            code = 1
            try:
                self.lcm.turn(lcm.Session("forked"), [said("forked", 0)])
                code = 0 if self.lcm.state()["pid"] != pid else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), 0)
        self.lcm.turn(s, [said("s", n) for n in range(2)])
        self.assertEqual(self.lcm.state()["pid"], pid)
        self.assertEqual({name: len(messages) for name, messages in self.kept().items()}, {"s": 2, "forked": 1})

    def test_the_child_ends_with_its_client(self):
        self.lcm.call("ping")
        pid = self.lcm.state()["pid"]
        self.lcm.close()
        self.assertFalse(is_there(pid))


class Crowd(Program):
    def test_thirty_two_threads_on_one_child(self):
        def talk(n, failures):
            try:
                session, own = lcm.Session(f"s{n}", agent=f"a{n % 4}"), []
                for number in range(25):
                    own.append(said(f"s{n}", number))
                    self.lcm.turn(session, own, deadline=60)
                    if number % 5 == 0:
                        self.assertEqual(self.lcm.behind(session, own, deadline=60), own)
            except Exception as error:
                failures.append((n, error))

        failures = []
        threads = [threading.Thread(target=talk, args=(n, failures)) for n in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(failures, [])
        self.assertEqual(self.kept(), {f"s{n}": [said(f"s{n}", number) for number in range(25)] for n in range(32)})


class Killed(Program):
    def test_nothing_is_lost_or_doubled_when_the_child_is_killed_again_and_again(self):
        of, stop, shown, kills = random.Random(SEED), threading.Event(), {}, 0
        self.lcm.call("ping")
        # Ten times as many as a host would bear; and so that the test has not to wait for the pauses to be over.
        place = lcm._REGISTRY.places[self.lcm.home]
        place.starts_max, place.pauses_s = 1000, (0.0,)

        def talk(n):
            session, own = lcm.Session(f"s{n}"), []
            shown[f"s{n}"] = own
            while not stop.is_set():
                own.append(said(f"s{n}", len(own)))
                while True:
                    try:
                        self.lcm.turn(session, own, deadline=30)
                        break
                    except lcm.LcmUnavailable:
                        pass    # killed twice in one call: the host shows its list again, as hosts do

        threads = [threading.Thread(target=talk, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        while kills < 40:
            # In the middle of calls, and between two.
            time.sleep(of.uniform(0.0, 0.08))
            pid = self.lcm.state()["pid"]
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
        stop.set()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), f"seed {SEED}: a call does not end")
        for name, own in shown.items():
            self.assertEqual(self.kept().get(name), own, f"seed {SEED}: {name}")
        self.assertGreater(min(map(len, shown.values())), 20)


if __name__ == "__main__":
    unittest.main()
