"""Whatever the child does, a call ends: with its answer, or with an error that says what happened.

Method: programs that misbehave, one for each test, in the place of the real one. Bounds are those of the client; a test
that hangs is a failed test.
"""
import asyncio
import os
import random
import signal
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import Case, is_there, lcm

S = lcm.Session("s")


def together(count, do):
    """`do(n)` in so many threads; what each gave, or raised."""
    results = [None] * count

    def run(n):
        try:
            results[n] = do(n)
        except Exception as error:
            results[n] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a call does not end"
    return results


class Answers(Case):
    def test_threads_get_their_own_answers_in_any_order(self):
        client = self.client(self.stand_in('''
            import random
            of, waiting = random.Random(7), []
            while True:
                waiting.append(read())
                # All 32 callers wait at once, and are answered in another order.
                if len(waiting) == 32:
                    of.shuffle(waiting)
                    for request in waiting:
                        answer(request, request["params"]["n"])
                    waiting = []
        '''))
        rounds = 40

        def calls(n):
            return [client.call("echo", {"n": n * rounds + nth}, deadline=20) for nth in range(rounds)]

        for n, got in enumerate(together(32, calls)):
            self.assertEqual(got, [n * rounds + nth for nth in range(rounds)])

    def test_a_huge_answer_and_one_in_drops_come_whole(self):
        client = self.client(self.stand_in('''
            request = read()
            answer(request, "x" * (20 << 20))
            request = read()
            for byte in json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": "\\u00e4 in drops"}, ensure_ascii=False).encode() + b"\\n":
                raw(bytes([byte]))
                time.sleep(0.001)
            request = read()
            raw(b"\\n\\n" + json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": 3}).encode() + b"\\r\\n\\n")
            read()
        '''))
        self.assertEqual(len(client.call("x", deadline=20)), 20 << 20)
        self.assertEqual(client.call("x", deadline=20), "\u00e4 in drops")
        self.assertEqual(client.call("x", deadline=20), 3)

    def test_what_lcm_refuses_has_its_code_and_its_kind(self):
        client = self.client(self.stand_in('''
            refuse(read(), -32030, "the store is busy", {"retry": True})
            refuse(read(), -32020, "the deadline has passed")
            refuse(read(), -32021, "cancelled")
            request = read()
            write({"jsonrpc": "2.0", "id": request["id"], "error": "broken"})
            read()
        '''))
        with self.assertRaises(lcm.LcmError) as caught:
            client.call("x")
        self.assertEqual((caught.exception.code, caught.exception.message, caught.exception.data),
                         (-32030, "the store is busy", {"retry": True}))
        self.assertRaises(lcm.LcmTimeout, client.call, "x")
        self.assertRaises(lcm.LcmCancelled, client.call, "x")
        self.assertRaises(lcm.LcmError, client.call, "x")

    def test_answers_nobody_waits_for_are_passed_over(self):
        client = self.client(self.stand_in('''
            request = read()
            write({"jsonrpc": "2.0", "id": 77, "result": "of nobody"})
            write({"jsonrpc": "2.0", "id": "text", "result": "of nobody"})
            write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "of no line"}})
            write({"jsonrpc": "2.0", "method": "news", "params": {}})
            answer(request, "right")
            read()
        '''))
        self.assertEqual(client.call("x", deadline=5), "right")

    def test_an_answer_too_deep_for_python_is_an_error_of_that_call_only(self):
        client = self.client(self.stand_in('''
            request = read()
            raw(b'{"jsonrpc":"2.0","id":%d,"result":' % request["id"] + b"[" * 200000 + b"]" * 200000 + b"}\\n")
            answer(read(), "alive")
            read()
        '''))
        with self.assertRaisesRegex(lcm.LcmError, "nested deeper"):
            client.call("x", deadline=5)
        self.assertEqual(client.call("x", deadline=5), "alive")
        self.assertEqual(len(self.noted("starts")), 1)


class Broken(Case):
    """A child that is no use any more is replaced once for a call, and named when that does not help."""

    def survives(self, first_life):
        client = self.client(self.stand_in(f'''
            if len(open(os.path.join(HOME, "starts")).readlines()) == 1:
                request = read()
                {first_life}
                time.sleep(60)
            while True:
                answer(read(), "second life")
        '''))
        self.assertEqual(client.call("x", deadline=10), "second life")
        pids = [int(pid) for pid in self.noted("starts")]
        self.assertEqual(len(pids), 2)
        self.assertFalse(is_there(pids[0]), "the first child is gone and was waited for")
        return client.state()["why"]

    def test_dead(self):
        self.assertIn("exit code 9", self.survives('sys.stderr.write("out of luck\\n"); sys.stderr.flush(); os._exit(9)'))

    def test_killed(self):
        self.assertIn("signal 9", self.survives("os.kill(os.getpid(), signal.SIGKILL)"))

    def test_half_a_line(self):
        self.assertIn("in the middle of a line", self.survives('''raw(b'{"jsonrpc":"2.0","id":2,"res'); os._exit(0)'''))

    def test_garbage(self):
        self.assertIn("no JSON", self.survives('raw(b"thread main panicked\\n")'))

    def test_bytes_that_are_no_text(self):
        self.assertIn("no JSON", self.survives('raw(b"\\xff\\xfe\\n")'))

    def test_json_that_is_no_message(self):
        self.assertIn("no message", self.survives('raw(b"[1, 2]\\n")'))

    def test_splices_that_do_not_fit(self):
        client = self.client(self.stand_in('''
            while True:
                answer(read(), {"base": "b1", "splices": [[5, 1, []]]})
        '''))
        with self.assertRaisesRegex(lcm.LcmError, "does not fit"):
            client.compress(S, [{"role": "user", "content": "x"}], deadline=10)

    def test_what_the_dying_child_said_is_in_the_error(self):
        client = self.client(self.stand_in('''
            read()
            sys.stderr.write("first\\nthe disk is full\\n")
            sys.exit(3)
        '''))
        with self.assertRaisesRegex(lcm.LcmUnavailable, "exit code 3.*the disk is full"):
            client.call("x", deadline=10)

    def test_a_child_that_keeps_ending_is_left_alone_for_a_while(self):
        client = self.client(self.stand_in("read(); os._exit(1)"))
        for _ in range(3):
            self.assertRaises(lcm.LcmUnavailable, client.call, "x", deadline=10)
        began = time.monotonic()
        with self.assertRaisesRegex(lcm.LcmUnavailable, "started 5 times within a minute and is tried again in"):
            client.call("x", deadline=10)
        self.assertLess(time.monotonic() - began, 1)
        self.assertEqual(len(self.noted("starts")), 5)
        self.assertIn("exit code 1", client.state()["why"])

    def test_a_program_that_is_none_is_named(self):
        path = os.path.join(self.folder, "text")
        with open(path, "w", encoding="utf-8") as file:
            file.write("not a program")
        with self.assertRaisesRegex(lcm.LcmUnavailable, "there is no such program"):
            self.client(path).call("x")
        os.chmod(path, 0o700)
        with self.assertRaisesRegex(lcm.LcmUnavailable, "cannot be started"):
            self.client(path).call("x")

    def test_a_program_of_another_protocol_is_refused_by_name(self):
        path = self.stand_in("")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"protocol": 1', '"protocol": 2'))
        with self.assertRaisesRegex(lcm.LcmUnavailable, "another protocol"):
            self.client(path).call("x")

    def test_callers_with_little_time_do_not_keep_a_slow_program_from_starting(self):
        path = self.stand_in("while True: answer(read(), os.getpid())")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("answer(first", "time.sleep(1.5)\nanswer(first"))
        client = self.client(path)
        for _ in range(3):
            self.assertRaises(lcm.LcmTimeout, client.call, "x", deadline=0.2)
        self.assertRaises(lcm.LcmCancelled, client.call, "x", deadline=5, should_stop=lambda: True)
        self.assertIsInstance(client.call("x", deadline=10), int)
        self.assertEqual(len(self.noted("starts")), 1)

    def test_a_program_that_says_nothing_at_its_start_is_given_up(self):
        path = os.path.join(self.folder, "mute")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec sleep 60\n")
        os.chmod(path, 0o700)
        began = time.monotonic()
        client = self.client(path)
        with unittest.mock.patch.object(lcm, "START_S", 1), self.assertRaisesRegex(lcm.LcmUnavailable, "does not start"):
            client.call("x", deadline=10)
        self.assertLess(time.monotonic() - began, 5)


class Deadlines(Case):
    SILENT = '''
        while True:
            request = read()
            note("asked", json.dumps(request))
            if request["method"] == "ping":
                answer(request, {})
    '''

    def test_silence_ends_at_the_deadline_and_the_child_is_told(self):
        client = self.client(self.stand_in(self.SILENT))
        client.call("ping")
        began = time.monotonic()
        self.assertRaises(lcm.LcmTimeout, client.call, "slow", deadline=0.4)
        self.assertLess(time.monotonic() - began, 3)
        client.call("ping", deadline=5)
        asked = self.noted("asked")
        self.assertIn('"deadline_ms": ', asked[1])
        self.assertIn('"method": "cancel"', asked[2])
        self.assertEqual(len(self.noted("starts")), 1, "one late answer is no reason to end a child")

    def test_the_callers_stop_ends_a_call_within_moments(self):
        client = self.client(self.stand_in(self.SILENT))
        client.call("ping")
        stop = threading.Event()
        threading.Timer(0.2, stop.set).start()
        began = time.monotonic()
        self.assertRaises(lcm.LcmCancelled, client.call, "slow", deadline=30, should_stop=stop.is_set)
        self.assertLess(time.monotonic() - began, 2)
        client.call("ping", deadline=5)
        self.assertIn('"method": "cancel"', self.noted("asked")[2])

    def test_others_go_on_when_the_reading_thread_gives_up(self):
        client = self.client(self.stand_in('''
            held = []
            while True:
                request = read()
                if request["method"] == "cancel":
                    for other in held:
                        answer(other, "late")
                elif request["method"] == "held":
                    held.append(request)
        '''))
        # The first caller reads for the others, and leaves first.
        results = together(8, lambda n: client.call("first", deadline=0.5) if n == 0 else client.call("held", deadline=20))
        self.assertIsInstance(results[0], lcm.LcmTimeout)
        self.assertEqual(results[1:], ["late"] * 7)

    def test_a_child_that_does_not_read_blocks_nobody_for_ever(self):
        client = self.client(self.stand_in("time.sleep(60)"))
        large = [{"role": "user", "content": "x" * (4 << 20)}]
        began = time.monotonic()
        results = together(4, lambda n: client.turn(lcm.Session(f"s{n}"), large, deadline=0.7))
        self.assertLess(time.monotonic() - began, 5)
        for result in results:
            self.assertIsInstance(result, lcm.LcmTimeout)

    def test_a_line_that_was_begun_is_finished_before_the_next(self):
        client = self.client(self.stand_in('''
            time.sleep(1.5)
            while True:
                request = read()
                note("asked", request["method"] + " " + str(len(json.dumps(request)) > 1000000))
                if request["method"] == "ping":
                    answer(request, {})
        '''))
        with self.assertRaises(lcm.LcmTimeout):
            client.turn(S, [{"role": "user", "content": "x" * (4 << 20)}], deadline=0.3)
        client.call("ping", deadline=20)
        self.assertEqual(self.noted("asked")[0], "turn True")

    def test_a_stopped_child_is_replaced_once_it_was_silent_for_long(self):
        client = self.client(self.stand_in('''
            while True:
                answer(read(), os.getpid())
        '''))
        first = client.call("pid")
        os.kill(first, signal.SIGSTOP)
        self.assertRaises(lcm.LcmTimeout, client.call, "pid", deadline=0.3)
        tries = 0
        with unittest.mock.patch.object(lcm, "SILENT_S", 2):
            while True:
                try:
                    second = client.call("pid", deadline=0.5)
                    break
                except lcm.LcmTimeout:
                    tries += 1
                    self.assertLess(tries, 5)
        self.assertNotEqual(second, first)
        self.assertFalse(is_there(first))

    def test_exceptions_that_end_threads_pass_and_the_child_is_told(self):
        client = self.client(self.stand_in(self.SILENT))
        client.call("ping")
        for kind in (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            def stop(kind=kind):
                raise kind
            self.assertRaises(kind, client.call, "slow", deadline=20, should_stop=stop)
        client.call("ping", deadline=5)
        self.assertEqual(sum('"cancel"' in line for line in self.noted("asked")), 3)
        self.assertEqual(len(self.noted("starts")), 1)

    def test_ctrl_c_in_the_middle_of_a_call_leaves_a_client_that_works(self):
        client = self.client(self.stand_in('''
            while True:
                request = read()
                if request["method"] == "ping":
                    answer(request, "x" * 300000)
        '''))
        of = random.Random(11)
        for _ in range(15):
            timer = threading.Timer(of.uniform(0.001, 0.03), os.kill, (os.getpid(), signal.SIGINT))
            try:
                with self.assertRaises(KeyboardInterrupt):
                    # It may come at once.
                    timer.start()
                    while True:
                        client.call("ping", deadline=20)
            finally:
                timer.join()
            self.assertEqual(len(client.call("ping", deadline=20)), 300000)


class Reverse(Case):
    """`host/summarize` is answered on the thread that waits inside the call it is about."""

    ASKING = '''
        calls, asked = {}, 0
        while True:
            message = read()
            if message.get("method") == "cancel":
                note("cancelled", str(message["params"]["id"]))
            elif "method" in message:
                calls[message["id"]] = message
                if message["method"] == "ping":
                    answer(message, {})
                    continue
                asked += 1
                write({"jsonrpc": "2.0", "id": f"r{message['id']}", "method": message["params"].get("verb", "host/summarize"),
                       "params": {"call": message["id"], "instructions": "i", "material": message["params"]["name"],
                                  "tokens_max": 5, "time_max_ms": 1000}})
            else:
                note("told", json.dumps(message))
                answer(calls[int(message["id"][1:])], message.get("result", message.get("error")))
    '''

    def test_each_on_its_own_thread_while_others_are_answered(self):
        client = self.client(self.stand_in(self.ASKING))

        def ask(n):
            own, seen = threading.get_ident(), []

            def summarize(request):
                seen.append(threading.get_ident() == own)
                time.sleep(random.Random(n).uniform(0, 0.05))
                return f"summary of {request['material']} in {request['tokens_max']}"

            got = [client.call("compress", {"name": f"t{n}.{nth}"}, deadline=20, summarizer=summarize) for nth in range(10)]
            return got, seen

        for n, (got, seen) in enumerate(together(16, ask)):
            self.assertEqual(got, [{"text": f"summary of t{n}.{nth} in 5"} for nth in range(10)])
            self.assertEqual(seen, [True] * 10)

    def test_a_model_that_fails_or_is_none_is_told_and_the_call_goes_on(self):
        client = self.client(self.stand_in(self.ASKING))

        def fails(request):
            raise ValueError("no\nmodel")

        told = client.call("compress", {"name": "a"}, summarizer=fails)
        self.assertEqual(told["message"], "the host's model failed: ValueError: no model")
        self.assertEqual(client.call("compress", {"name": "a"})["code"], -32050)
        self.assertIn("the host's model failed", client.call("compress", {"name": "a"}, summarizer=lambda _: 7)["message"])
        self.assertEqual(client.call("compress", {"name": "a", "verb": "host/else"})["code"], -32601)
        both = {"text": "t", "model": "m"}
        self.assertEqual(client.call("compress", {"name": "a"}, summarizer=lambda _: {**both, "other": object()}), both)

    def test_what_ends_a_thread_passes_out_of_the_model(self):
        client = self.client(self.stand_in(self.ASKING))

        def ends(request):
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, client.call, "compress", {"name": "a"}, summarizer=ends)
        client.call("ping", deadline=5)
        self.assertEqual(self.noted("cancelled"), ["2"])

    def test_a_model_may_call_lcm_itself(self):
        client = self.client(self.stand_in(self.ASKING))
        told = client.call("compress", {"name": "a"}, deadline=10, summarizer=lambda _: str(client.call("ping", deadline=5)))
        self.assertEqual(told, {"text": "{}"})

    def test_who_comes_back_late_from_a_model_takes_the_answer_that_came(self):
        client = self.client(self.stand_in('''
            while True:
                message = read()
                if "method" in message and message["method"] == "compress":
                    write({"jsonrpc": "2.0", "id": "r", "method": "host/summarize", "params": {"call": message["id"]}})
                    answer(message, "without a model")
        '''))

        def slow(request):
            time.sleep(1.2)
            return "too late"

        self.assertEqual(client.call("compress", deadline=0.4, summarizer=slow), "without a model")

    def test_a_request_for_a_call_that_is_over_is_refused(self):
        client = self.client(self.stand_in('''
            request = read()
            write({"jsonrpc": "2.0", "id": "r", "method": "host/summarize", "params": {"call": 999}})
            note("told", json.dumps(read()))
            answer(request, "done")
            read()
        '''))
        self.assertEqual(client.call("x", deadline=5), "done")
        self.assertIn("nobody waits", self.noted("told")[0])


class Lists(Case):
    """The child keeps what it is sent as the real one does, and shows what it made of it."""

    KEEPING = '''
        bases, last = {}, 0
        while True:
            request = read()
            params = request["params"]
            sent = params["list"]
            note("sent", json.dumps(sent))
            if "all" in sent:
                messages = sent["all"]
            elif sent["base"] in bases and not os.path.exists(os.path.join(HOME, "forget")):
                messages = list(bases[sent["base"]])
                for start, delete, new in sent["splices"]:
                    messages[start:start + delete] = new
            else:
                os.path.exists(os.path.join(HOME, "forget")) and os.unlink(os.path.join(HOME, "forget"))
                refuse(request, -32010, "the base is not known", {"send": "all"})
                continue
            last += 1
            result = {"base": f"b{last}", "tokens": len(messages), "messages": messages}
            if request["method"] == "compress":
                result["splices"] = None
                if params.get("force"):
                    result["splices"] = [[0, len(messages) - 2, [{"role": "user", "content": ["fold", last]}]]]
                    messages = [{"role": "user", "content": ["fold", last]}] + messages[-2:]
            if request["method"] == "select":
                result["splices"] = [[1, 1, []]]
            bases[f"b{last}"] = messages
            answer(request, result)
    '''

    def setUp(self):
        super().setUp()
        self.lcm = self.client(self.stand_in(self.KEEPING))
        self.list = [{"role": "user", "content": f"m{n}"} for n in range(6)]

    def sent(self):
        return self.noted("sent")[-1]

    def test_a_list_that_stays_as_it_is_comes_back_as_the_same_object(self):
        for given in (self.list, tuple(self.list)):
            self.assertIs(self.lcm.compress(S, given).messages, given)

    def test_messages_that_stay_are_the_hosts_own_objects(self):
        got = self.lcm.compress(S, self.list, force=True).messages
        self.assertEqual(got[0], {"role": "user", "content": ["fold", 1]})
        self.assertIs(got[1], self.list[4])
        self.assertIs(got[2], self.list[5])
        self.assertEqual(len(self.list), 6)
        # What came is a base; and the host may write into what it was given.
        got[0]["content"].append("annotated")
        self.assertEqual(self.lcm.behind(S, got), got)
        self.assertEqual(self.sent(), '{"base": "b1", "splices": [[0, 1, [{"role": "user", "content": ["fold", 1, "annotated"]}]]]}')

    def test_what_is_selected_is_no_base(self):
        self.assertEqual(self.lcm.select(S, self.list).messages, self.list[:1] + self.list[2:])
        self.lcm.turn(S, self.list)
        self.assertEqual(self.sent(), '{"base": "b1", "splices": []}')

    def test_lists_of_one_session_that_take_turns_are_all_remembered(self):
        shorter = self.lcm.compress(S, self.list, force=True).messages
        self.lcm.turn(S, self.list)
        self.lcm.turn(S, shorter)
        self.assertEqual(self.sent(), '{"base": "b1", "splices": []}')
        self.lcm.turn(S, self.list)
        self.assertEqual(self.sent(), '{"base": "b2", "splices": []}')

    def test_sessions_have_bases_of_their_own(self):
        self.lcm.turn(S, self.list)
        self.lcm.turn(lcm.Session("s", agent="other"), self.list)
        self.assertIn('"all"', self.sent())
        self.lcm.weigh(self.list)
        self.assertIn('"all"', self.sent())
        self.assertEqual(self.lcm.weigh(self.list, session=S), 6)
        self.assertEqual(self.sent(), '{"base": "b1", "splices": []}')

    def test_a_base_that_is_not_known_any_more_is_sent_whole(self):
        self.lcm.turn(S, self.list)
        open(os.path.join(self.home(), "forget"), "w").close()
        self.lcm.turn(S, self.list + [{"role": "user", "content": "new"}])
        self.assertIn('"base": "b1"', self.noted("sent")[-2])
        self.assertIn('"all"', self.sent())

    def test_a_new_child_is_sent_everything(self):
        self.lcm.turn(S, self.list)
        os.kill(self.lcm.state()["pid"], signal.SIGKILL)
        self.lcm.turn(S, self.list)
        self.assertIn('"all"', self.sent())

    def test_many_threads_edit_and_show_lists_of_one_session(self):
        def show(n):
            of, own = random.Random(n), [dict(message) for message in self.list]
            for nth in range(30):
                own[of.randrange(len(own))]["content"] = f"{n}.{nth}"
                if of.random() < 0.5:
                    own.insert(of.randrange(len(own)), {"role": "user", "content": f"{n}.{nth} new"})
                self.assertEqual(self.lcm.behind(S, own, deadline=20), own)

        self.assertEqual(together(8, show), [None] * 8)

    def test_a_message_that_contains_itself_ends_no_child(self):
        loop = {"role": "user"}
        loop["content"] = loop
        self.assertRaises(lcm.LcmUnsendable, self.lcm.turn, S, [loop])
        self.assertRaises(lcm.LcmUnsendable, self.lcm.call, "turn", {"list": loop})
        self.lcm.turn(S, self.list)
        self.assertEqual(len(self.noted("starts")), 1)


if __name__ == "__main__":
    unittest.main()
