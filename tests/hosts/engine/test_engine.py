"""The engine in a host's hands: what is shown becomes history only when the host took it, nothing raises, and a host goes on
when lcm cannot be asked.
"""
import copy
import json
import logging
import os
import pathlib
import subprocess
import sys
import threading
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from host import ContextCompressor, ContextEngine, Database, Hosted, Model, Settings, plugin, problems, real_program, talk


class Folding(Hosted):
    def ops(self, session="s"):
        """What was done to a session, newest last."""
        done = subprocess.run([real_program(), "--home", self.data, "--format", "json", "log", session, "--ops"],
                              capture_output=True, text=True, check=False, timeout=60)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def folds_shown(self, session="s"):
        return sum(op.get("what") == "fold" for op in self.ops(session))

    def found(self, engine, query):
        answer = json.loads(engine.handle_tool_call("lcm_grep", {"query": query}))
        return [hit["snippet"] for hit in answer.get("results", ())]

    def test_a_fold_becomes_what_the_session_shows_when_the_host_took_it_and_not_before(self):
        engine, messages = self.engine(), talk(40)
        given = copy.deepcopy(messages)
        shorter = engine.compress(messages, current_tokens=90_000)
        self.assertEqual(messages, given)
        self.assertIsNot(shorter, messages)
        self.assertLess(len(shorter), len(messages))
        self.assertEqual(problems(shorter), [])
        self.assertEqual(shorter[-1], messages[-1])
        self.assertEqual(self.folds_shown(), 0)
        engine.on_session_end("s", messages)
        self.assertEqual(self.folds_shown(), 0)
        engine.on_session_start("s", boundary_reason="compression", old_session_id="s", platform="cli", conversation_id=None)
        self.assertGreater(self.folds_shown(), 0)
        self.assertTrue(self.found(engine, '"harbour number 3 is"'))
        self.assertLessEqual(engine.compression_count, 1)

    def test_an_attempt_that_the_host_dropped_changes_nothing(self):
        engine, messages = self.engine(), talk(40)
        self.assertLess(len(engine.compress(messages, current_tokens=90_000)), len(messages))
        engine.on_session_reset()
        engine.bind_session_state(Database(), "other")
        engine.on_session_start("other", boundary_reason="compression", old_session_id="other")
        engine.bind_session_state(Database(), "s")
        engine.on_turn_complete(messages + [{"role": "assistant", "content": "now we are done"}])
        self.assertEqual(self.folds_shown(), 0)

    def test_what_the_host_adds_to_the_newest_request_is_no_other_request(self):
        todo = "\n\n[Your active task list was preserved across context compression]\n- [>] 1. measure (in_progress)"
        for session, tells_turns in (("told", True), ("untold", False)):
            with self.subTest(session):
                engine, said, shown = self.engine(session), [], []

                def say(*messages):
                    said.extend(messages)
                    shown.extend(messages)
                    if tells_turns:
                        engine.on_turn_complete(copy.deepcopy(shown))
                # Both the request and the answer are said again in the same words, so that one may be taken for another.
                for at in range(4):
                    say(*talk(30, about=f"{session}{at}x")[:-1], {"role": "user", "content": "continue"})
                    shorter = engine.compress(shown, current_tokens=90_000)
                    self.assertLess(len(shorter), len(shown))
                    shown[:] = copy.deepcopy(shorter)
                    shown[-1]["content"] += todo
                    engine.on_session_start(session, boundary_reason="compression", old_session_id=session)
                    say({"role": "assistant", "content": "Done."})
                engine.on_turn_complete(shown)
                done = subprocess.run([real_program(), "--home", self.data, "export", session], capture_output=True, text=True, check=True)
                kept = [record["message"] for record in map(json.loads, done.stdout.splitlines()) if "message" in record]
                self.assertEqual([message["content"] for message in kept], [message["content"] for message in said])

    def test_only_the_newest_attempt_is_published_and_not_what_another_process_folded(self):
        engine, messages = self.engine(), talk(40)
        engine.compress(messages, current_tokens=90_000)
        program, os.environ["LCM_CLI"] = os.environ["LCM_CLI"], os.path.join(self.hermes_home, "nothing")
        plugin.Client(self.data).close()
        self.assertEqual(engine.compress(messages, current_tokens=90_000), [messages[0], messages[-1]])
        os.environ["LCM_CLI"] = program
        engine.on_session_start("s", boundary_reason="compression", old_session_id="s")
        self.assertEqual(self.folds_shown(), 0)
        engine.compress(messages, current_tokens=90_000)
        engine.on_session_start("child", boundary_reason="compression", old_session_id="s", session_db=Database())
        self.assertEqual((self.folds_shown(), self.folds_shown("child")), (0, 0))

    def test_an_attempt_that_ends_behind_a_newer_one_is_not_published(self):
        engine, messages, begun, may_end = self.engine(), talk(40), threading.Event(), threading.Event()

        def waits():
            begun.set()
            may_end.wait(30)
            return "The harbour was measured at length, the older attempt says."
        Model.answer = waits
        older = threading.Thread(target=engine.compress, args=(messages,), kwargs={"current_tokens": 90_000})
        older.start()
        begun.wait(30)
        Model.answer = "The harbour was measured, the newer attempt says."
        newer = engine.compress(messages, current_tokens=90_000)
        may_end.set()
        older.join(60)
        self.assertIs(engine._attempt.shorter, newer)

    def test_a_fold_without_the_hosts_word_is_known_when_it_is_shown(self):
        engine, messages = self.engine(), talk(40)
        shorter = engine.compress(messages, current_tokens=90_000)
        engine.on_turn_complete(shorter + [{"role": "assistant", "content": "we are done"}])
        self.assertGreater(self.folds_shown(), 0)

    def test_a_session_that_goes_on_under_another_id_has_its_history(self):
        engine = self.engine("one")
        shorter = engine.compress(talk(40), current_tokens=90_000)
        engine.on_session_start("two", boundary_reason="compression", old_session_id="one")
        engine.bind_session_state(Database(), "two")
        engine.on_turn_complete(shorter + [{"role": "assistant", "content": "we are done"}])
        self.assertTrue(self.found(engine, '"harbour number 3 is"'))

    def test_marks_of_the_hosts_database_are_not_handed_back_as_written(self):
        engine = self.engine()
        messages = [{**message, "_db_persisted": True, "_row_id": at, "timestamp": 1_800_000_000 + at} for at, message in enumerate(talk(40))]
        shorter = engine.compress(messages, current_tokens=90_000)
        self.assertFalse(any("_db_persisted" in message for message in shorter))
        self.assertEqual(shorter[-1]["_row_id"], messages[-1]["_row_id"])

    def test_a_cancelled_attempt_gives_the_list_back(self):
        engine, messages, asked = self.engine(), talk(40), []
        engine._compression_cancelled_check = lambda: bool(asked)
        Model.answer = lambda: asked.append(1) or "too late"
        self.assertTrue(engine.compress(messages, current_tokens=90_000) is messages)
        engine._compression_cancelled_check = None
        self.assertLess(len(engine.compress(messages, current_tokens=90_000)), len(messages))

    def test_the_hosts_model_writes_the_summaries_unless_it_is_told_not_to_or_fails(self):
        engine = self.engine()
        shorter = engine.compress(talk(40), current_tokens=90_000)
        self.assertGreater(Model.asked, 0)
        self.assertIn("found to be deep", json.dumps(shorter))

        def refuses():
            raise ConnectionError("no model today")
        Model.answer = refuses
        self.assertEqual(problems(self.engine("two").compress(talk(40, about="river"), current_tokens=90_000)), [])
        asked, Settings.said = Model.asked, {"lcm": {"host_summaries": False}}
        self.assertEqual(problems(self.engine("three").compress(talk(40, about="canal"), current_tokens=90_000)), [])
        self.assertEqual(Model.asked, asked)

    def test_what_ends_a_thread_passes_through_the_hosts_model(self):
        class Ends(BaseException):
            pass

        def ends():
            raise Ends
        Model.answer = ends
        with self.assertRaises(Ends):
            self.engine().compress(talk(40), current_tokens=90_000)

    def test_many_threads_on_one_engine_are_answered(self):
        engine, failed = self.engine(), []

        def run(at):
            shorter = engine.compress(talk(20, about=f"lake{at}x"), current_tokens=90_000)
            if problems(shorter):
                failed.append(problems(shorter))
        threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        self.assertEqual(failed, [])


class Manners(Hosted):
    """What a host may do to an engine."""

    def test_it_is_an_engine_by_the_hosts_measure_and_another_one_for_each_agent(self):
        engine, other = self.engine("one"), self.engine("two")
        self.assertIsInstance(engine, ContextEngine)
        self.assertEqual(engine.name, "lcm")
        for copied in (copy.deepcopy(engine), engine.clone_for_agent(), copy.copy(engine), other):
            self.assertIsNot(copied, engine)
        other.update_model("small", 64_000)
        self.assertEqual(engine.context_length, 100_000)
        self.assertTrue(plugin.LCMEngine(context_length=200_000).threshold_tokens)

    def test_its_schemas_are_bare_and_the_same_every_time(self):
        schemas = self.engine().get_tool_schemas()
        self.assertEqual({schema["name"] for schema in schemas}, {"lcm_grep", "lcm_expand", "lcm_describe", "lcm_expand_query"})
        self.assertTrue(all(set(schema) == {"name", "description", "parameters"} for schema in schemas))
        self.assertEqual(json.dumps(schemas), json.dumps(self.engine("two").get_tool_schemas()))

    def test_nothing_that_a_host_can_pass_raises(self):
        odd = [None, 0, -1, 3.5, float("nan"), "", "x" * 10_000, [], [None], {}, [{}], [{"role": 7}], object(), {"prompt_tokens": "many"},
               [{"role": "user", "content": None}], [{"role": "tool", "tool_call_id": "x", "content": "orphan"}]]
        loop = []
        loop.append(loop)
        engine = self.engine()
        for value in [*odd, loop, [{"role": "user", "content": loop}]]:
            for name in ("update_from_response", "should_compress", "should_compress_info", "should_compress_preflight", "compress",
                         "should_defer_preflight_to_real_usage", "has_content_to_compress", "prune_tool_results_only", "select_context",
                         "on_turn_complete", "on_session_reset", "get_automatic_compaction_status_message"):
                with self.subTest(name=name, value=type(value).__name__):
                    method = getattr(engine, name)
                    if name == "get_automatic_compaction_status_message":
                        method(phase="x", default_message="y", approx_tokens=value)
                    else:
                        method(value)
            engine.update_model("m", value)
            engine.update_model("m", 100_000)
            engine.on_session_end("s", value)
            engine.on_session_start(value, future_keyword=value)
            engine.bind_session_state(Database(), "s")
            json.loads(engine.handle_tool_call("lcm_grep", value))
            json.loads(engine.handle_tool_call(value, {"query": "x"}, messages=value))

    def test_what_could_not_be_made_smaller_is_not_tried_again_at_once_and_says_why(self):
        engine = self.engine(window=1_000_000)
        newest = [{"role": "user", "content": "deep " * 400_000}]
        self.assertIs(engine.compress(newest, current_tokens=400_000), newest)
        is_due, why = engine.should_compress_info(401_000)
        self.assertEqual((is_due, "could not make 400,000 tokens fewer" in why), (False, True))
        self.assertTrue(engine.should_compress(430_000))
        self.assertTrue(engine.should_compress(960_000))

    def test_unfinished_lists_come_back_as_they_are(self):
        engine = self.engine()
        for messages in ([], [{"role": "user", "content": "hi"}], "no list", None, [None], ["x"]):
            self.assertIs(engine.compress(messages, current_tokens=10), messages)

    def test_the_latch_of_the_host_is_cleared_by_usage(self):
        engine = self.engine()
        for usage in ({}, {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}):
            engine.awaiting_real_usage_after_compression = True
            engine.update_from_response(usage)
            self.assertFalse(engine.awaiting_real_usage_after_compression)
        self.assertEqual((engine.last_prompt_tokens, engine.last_real_prompt_tokens, engine.last_total_tokens), (7, 7, 9))

    def test_its_state_may_be_taken_out_and_put_back(self):
        engine, messages = self.engine(), talk(40)
        state = dict(vars(engine))
        vars(engine).clear()
        vars(engine).update(state)
        self.assertLess(len(engine.compress(messages, current_tokens=90_000)), len(messages))

    def test_thresholds_follow_the_hosts_settings_and_the_environment(self):
        self.assertEqual(self.engine(window=65_536).threshold_tokens, 48_000)
        self.assertEqual(self.engine(window=200_000).threshold_tokens, 70_000)
        Settings.said = {"lcm": {"context_threshold": 0.5, "compress": {"threshold_tokens": 90_000}}}
        self.assertEqual(self.engine(window=100_000).threshold_tokens, 50_000)
        self.assertEqual(self.engine(window=1_000_000).threshold_tokens, 90_000)
        os.environ["LCM_CONTEXT_THRESHOLD"] = "0.25"
        self.assertEqual(self.engine(window=100_000).threshold_tokens, 25_000)


class Owners(Hosted):
    """Who sees what."""

    def sees(self, engine, query):
        return "blue" in engine.handle_tool_call("lcm_grep", {"query": query, "session_scope": "all"})

    def tell(self, engine, session):
        engine.on_turn_complete([{"role": "user", "content": f"the word of {session} is lantern blue"}, {"role": "assistant", "content": "noted"}])

    def test_another_user_of_the_gateway_and_another_profile_find_nothing(self):
        anna, bert = self.engine("a", person="telegram:anna"), self.engine("b", person="telegram:bert")
        self.tell(anna, "a")
        self.assertTrue(self.sees(anna, "lantern"))
        self.assertFalse(self.sees(bert, "lantern"))
        self.assertFalse(self.sees(self.engine("c"), "lantern"))
        os.environ["HERMES_HOME"] = self.hermes_home = os.path.join(self.hermes_home, "profiles", "work")
        os.makedirs(self.hermes_home)
        self.assertFalse(self.sees(self.engine("a", person="telegram:anna"), "lantern"))

    def test_what_a_helper_does_without_a_conversation_is_not_the_owner_s_where_others_are_served(self):
        self.tell(self.engine("mine"), "mine")
        self.engine("a", person="telegram:anna")._session()
        for session, database in (("", Database()), ("x1", None)):
            helper = self.engine(session)
            helper.bind_session_state(database, session)
            self.assertFalse(self.sees(helper, "lantern"), session)
        plugin._PERSONS.clear()
        self.assertTrue(self.sees(self.engine("y"), "lantern"))

    def test_a_threshold_that_is_no_number_is_not_taken(self):
        for said in (float("inf"), "nan", float("-inf")):
            Settings.said = {"lcm": {"compress": {"threshold_tokens": said}}}
            engine = self.engine()
            self.assertTrue(0 < engine.threshold_tokens < 100_000, said)

    def test_helpers_of_the_host_are_those_whose_session_it_is(self):
        self.tell(self.engine("a", person="telegram:anna"), "a")
        plugin._PERSONS.clear()
        known = Database(a={"session_key": "telegram:anna"}, child={"session_key": None, "parent_session_id": "a"})
        self.assertTrue(self.sees(self.engine("a", db=known), "lantern"))
        plugin._PERSONS.clear()
        self.assertTrue(self.sees(self.engine("child", db=known), "lantern"))

    def test_of_an_agent_without_a_database_nothing_is_kept_and_it_is_folded_all_the_same(self):
        self.tell(self.engine("kept"), "kept")
        engine, messages = self.engine(), talk(40, about="secret")
        engine.bind_session_state(None, "s")
        engine.get_tool_schemas()
        self.assertIsNone(engine.select_context(messages, conversation_messages=messages, incoming_message=None, budget_tokens=90_000))
        engine.should_compress_preflight(messages)
        self.assertIsNone(plugin._SCRATCH.path, "nothing was folded, so nothing is made for it")
        shorter = engine.compress(messages, current_tokens=90_000)
        self.assertEqual(problems(shorter), [])
        self.assertLess(len(shorter), len(messages))
        engine.on_turn_complete(messages)
        engine.on_session_end("s", messages)
        engine.handle_tool_call("lcm_grep", {"query": "secret"}, messages=messages)
        done = subprocess.run([real_program(), "--home", self.data, "export"], capture_output=True, text=True, check=True, timeout=60)
        self.assertIn("lantern", done.stdout)
        self.assertNotIn("secret", done.stdout)


class Without(Hosted):
    """lcm cannot be asked."""

    def test_without_the_program_the_hosts_own_compressor_is_used_and_the_user_is_told_once(self):
        os.environ["LCM_CLI"] = os.path.join(self.hermes_home, "nothing")
        engine, messages = self.engine(), talk(10)
        self.assertEqual(engine.get_tool_schemas(), [])
        self.assertEqual(engine.compress(messages, current_tokens=90_000), [messages[0], messages[-1]])
        self.assertIn("lcm is not available", engine._last_summary_error)
        self.assertEqual(engine.compress(messages, current_tokens=90_000), [messages[0], messages[-1]])
        self.assertIsNone(engine._last_summary_error)
        self.assertEqual(ContextCompressor.made, 1)
        self.assertIsNone(engine.select_context(messages, conversation_messages=messages, incoming_message=None, budget_tokens=9))
        self.assertIn("error", json.loads(engine.handle_tool_call("lcm_grep", {"query": "x"})))
        self.assertIn("is not in use", plugin._command("status"))

    def test_when_the_program_is_there_again_lcm_is_used_again(self):
        program, messages = os.environ["LCM_CLI"], talk(40)
        os.environ["LCM_CLI"] = os.path.join(self.hermes_home, "nothing")
        engine = self.engine()
        engine.compress(messages, current_tokens=90_000)
        os.environ["LCM_CLI"] = program
        self.assertIn("[lcm:fold", json.dumps(engine.compress(messages, current_tokens=90_000)))
        self.assertIsNone(engine.get_status()["fallback"])

    def test_a_store_of_the_future_is_refused_and_the_host_goes_on(self):
        self.engine().on_turn_complete(talk(2))
        plugin.Client(self.data).close()
        current = pathlib.Path(self.data) / "CURRENT"
        name, number, file = current.read_text().split(" ")
        current.write_text(f"{name} {int(number) + 1} {file}")
        engine, messages = self.engine(), talk(10)
        self.assertEqual(engine.compress(messages, current_tokens=90_000), [messages[0], messages[-1]])
        self.assertIn("lcm", engine._last_summary_error)

    def test_a_child_that_dies_in_a_fold_is_followed_by_another(self):
        engine, messages = self.engine(), talk(40)
        pid = plugin.Client(self.data).state()["pid"]

        def kills():
            if Model.asked == 1:
                os.kill(pid, 9)
            return "The harbour was deep."
        Model.answer = kills
        self.assertIn("[lcm:fold", json.dumps(engine.compress(messages, current_tokens=90_000)))


class Commands(Hosted):
    def test_a_command_is_of_whoever_asks_or_of_nobody(self):
        anna, bert = self.engine("a", person="telegram:anna"), self.engine("b", person="telegram:bert")
        anna.on_turn_complete([{"role": "user", "content": "the lantern is blue"}, {"role": "assistant", "content": "noted"}])
        bert.on_turn_complete([{"role": "user", "content": "nothing to see"}, {"role": "assistant", "content": "noted"}])
        self.assertIn("several people", plugin._command("grep lantern"))
        for person, sees in (("telegram:bert", False), ("telegram:anna", True), ("telegram:carl", False)):
            context = types.ModuleType("gateway.session_context")
            context.get_session_env = lambda name, default="": person if name == "HERMES_SESSION_KEY" else default
            with mock.patch.dict(sys.modules, {"gateway": types.ModuleType("gateway"), "gateway.session_context": context}):
                self.assertEqual("blue" in plugin._command("grep lantern"), sees, person)
                for command in ("grep lantern", "log", "undo", "doctor"):
                    for option in ("--person telegram:anna", "--agent=default", f"--home {self.data}"):
                        self.assertIn("is not for /lcm", plugin._command(f"{command} {option}"))
        del anna, bert

    def test_before_the_first_message_a_command_tells_whether_lcm_will_be_used(self):
        Settings.said = {"context": {"engine": "lcm"}}
        told = plugin._command("")
        self.assertIn("begins with your first message", told)
        self.assertIn(self.data, told)
        Settings.said = {"context": {"engine": "compressor"}}
        self.assertIn("set context.engine to lcm", plugin._command(""))

    def test_a_command_is_of_the_agent_that_was_used_last(self):
        main, helper = self.engine("a"), self.engine("z")
        helper.update_from_response({"prompt_tokens": 10})
        main.update_from_response({"prompt_tokens": 10})
        self.assertIs(plugin._calling_engine(), main)
        plugin._command("fold")
        self.assertTrue(main._fold_wanted)
        # It is tried once, whatever comes of it.
        os.environ["LCM_CLI"] = os.path.join(self.hermes_home, "nothing")
        plugin.Client(self.data).close()
        main.compress(talk(4), current_tokens=10)
        self.assertFalse(main.should_compress(10))
        del helper

    def test_a_person_sees_how_it_stands_and_can_take_a_fold_back(self):
        engine = self.engine()
        engine.last_prompt_tokens = 90_000
        shorter = engine.compress(talk(40), current_tokens=90_000)
        engine.on_session_start("s", boundary_reason="compression", old_session_id="s")
        self.assertIn("folded", plugin._command(""))
        self.assertIn(self.data, plugin._command("where"))
        self.assertIn("is undone", plugin._command("undo"))
        self.assertIn("use one of", plugin._command("dance"))
        self.assertIn("harbour", plugin._command("grep harbour"))
        self.assertTrue(shorter)

    def test_a_fold_that_was_asked_for_happens_at_the_next_request(self):
        engine = self.engine()
        engine.last_prompt_tokens = 10
        self.assertFalse(engine.should_compress(10))
        plugin._command("fold")
        self.assertTrue(engine.should_compress(10))
        self.assertLess(len(engine.compress(talk(10), current_tokens=20_000)), 41)
        self.assertFalse(engine.should_compress(10))


if __name__ == "__main__":
    logging.disable()
    unittest.main()
