"""What a Hermes Agent demands of an engine, asked of the installed agent itself: its class, its slot, its sessions, its picker.

    contract.py --venv DIR

`--venv` holds the agent, `LCM_CLI` names the program. lcm is put into a fresh home as people do it, by `lcm-cli install hermes`,
and taken out at the end. No model is asked: what the model gets is `harness.py`'s and `long/talk.py`'s to check.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from conversation import problems, talk

WINDOW = 65_536
# Nothing listens there.
NOBODY = "http://127.0.0.1:9"
CONFIG = """# what the owner wrote stays
model:
  default: mock-model
  provider: custom
  base_url: http://127.0.0.1:9/v1
  api_key: sk-mock
  context_length: 65536
memory:
  memory_enabled: false
  user_profile_enabled: false
"""


class Contract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from hermes_cli.plugins import discover_plugins, get_plugin_context_engine
        discover_plugins()
        cls.registered = get_plugin_context_engine()
        cls.module = sys.modules[type(cls.registered).__module__]

    def engine(self, window=WINDOW):
        engine = self.module.LCMEngine()
        engine.update_model(model="mock-model", context_length=window)
        return engine

    def agent(self, session):
        from hermes_state import SessionDB
        from run_agent import AIAgent
        database = SessionDB(pathlib.Path(os.environ["HERMES_HOME"]) / "state.db")
        return AIAgent(base_url=NOBODY + "/v1", api_key="sk-mock", provider="custom", model="mock-model", quiet_mode=True,
                       session_id=session, session_db=database, platform="cli", skip_context_files=True, skip_memory=True)

    def heard(self, engine, *names):
        """What the agent tells the engine from now on."""
        heard = []
        for name in names:
            method = getattr(engine, name)

            def listening(*args, _name=name, _method=method, **named):
                heard.append((_name, args, named))
                return _method(*args, **named)
            setattr(engine, name, listening)
        return heard

    # -- the class

    def test_it_is_an_engine_with_the_fields_that_the_host_reads(self):
        from agent.context_engine import ContextEngine
        engine = self.module.LCMEngine()
        self.assertIsInstance(engine, ContextEngine)
        self.assertEqual(engine.name, "lcm")
        self.assertEqual(self.module.LCMEngine(context_length=200_000).context_length, 200_000)
        for name in ("last_prompt_tokens", "last_completion_tokens", "last_total_tokens", "compression_count"):
            self.assertEqual(getattr(engine, name), 0, name)

    def test_a_model_sets_the_window_and_the_threshold_within_it(self):
        engine = self.engine()
        self.assertEqual(engine.context_length, WINDOW)
        self.assertTrue(0 < engine.threshold_tokens < WINDOW)
        engine.update_model(model="larger", context_length=4 * WINDOW, base_url="", api_key="", provider="", api_mode="")
        self.assertTrue(WINDOW < engine.threshold_tokens < 4 * WINDOW)

    def test_usage_decides_when_it_is_time(self):
        engine = self.engine()
        engine.update_from_response({"prompt_tokens": 1_000, "completion_tokens": 50, "total_tokens": 1_050})
        self.assertEqual((engine.last_prompt_tokens, engine.last_completion_tokens), (1_000, 50))
        self.assertFalse(engine.should_compress())
        self.assertFalse(engine.should_compress(1_000))
        self.assertTrue(engine.should_compress(engine.threshold_tokens + 1))

    def test_a_fold_is_valid_smaller_and_ends_with_the_request(self):
        engine, messages = self.engine(), talk(60)
        engine.on_session_start("fold", hermes_home=os.environ["HERMES_HOME"], platform="cli", model="mock-model", context_length=WINDOW)
        shorter = engine.compress(messages, current_tokens=60_000)
        self.assertLess(len(json.dumps(shorter)), len(json.dumps(messages)) // 2)
        self.assertEqual(problems(shorter), [])
        self.assertEqual(shorter[-1], messages[-1])
        for few in ([], messages[:1], [messages[-1]]):
            self.assertEqual(engine.compress(few, current_tokens=10), few)

    def test_status_has_what_the_host_shows(self):
        engine = self.engine()
        engine.update_from_response({"prompt_tokens": WINDOW // 4, "completion_tokens": 1, "total_tokens": WINDOW // 4 + 1})
        status = engine.get_status()
        told = (status["last_prompt_tokens"], status["context_length"], status["usage_percent"], status["compression_count"])
        self.assertEqual(told, (WINDOW // 4, WINDOW, 25, 0))
        self.assertEqual(status["threshold_tokens"], engine.threshold_tokens)

    def test_a_tool_that_is_not_there_is_an_error_in_json(self):
        self.assertIn("error", json.loads(self.engine().handle_tool_call("no_such_tool", {})))

    def test_reset_forgets_the_session_s_counts(self):
        engine = self.engine()
        engine.compression_count = 1
        engine.update_from_response({"prompt_tokens": 9_000, "completion_tokens": 1, "total_tokens": 9_001})
        engine.on_session_reset()
        self.assertEqual((engine.last_prompt_tokens, engine.last_total_tokens, engine.compression_count), (0, 0, 0))
        self.assertEqual(engine.context_length, WINDOW)

    # -- the slot

    def test_the_host_s_slot_holds_it(self):
        self.assertEqual(type(self.registered).__name__, "LCMEngine")

    def test_where_there_is_no_place_for_commands_it_registers_all_the_same(self):
        class Context:
            def register_context_engine(self, engine):
                self.offered = engine
        context = Context()
        self.module.register(context)
        self.assertIsInstance(context.offered, self.module.LCMEngine)
        self.assertIsNot(context.offered, self.registered)

    def test_the_picker_offers_it(self):
        from hermes_cli.plugins_cmd import _discover_context_engines
        self.assertIn("lcm", [name for name, _ in _discover_context_engines()])

    def test_every_agent_has_one_of_its_own_with_its_window_and_its_tools(self):
        one, other = self.agent("one"), self.agent("other")
        for agent in (one, other):
            engine = agent.context_compressor
            self.assertEqual(type(engine).__name__, "LCMEngine")
            self.assertEqual(engine.context_length, WINDOW)
            names = [tool["function"]["name"] for tool in agent.tools]
            self.assertEqual(names.count("lcm_grep"), 1)
            self.assertIn("lcm_grep", agent.valid_tool_names)
        self.assertIsNot(one.context_compressor, other.context_compressor)

    # -- the agent's sessions

    def test_a_bare_reset_and_a_new_session_reach_it(self):
        agent = self.agent("old")
        engine, messages = agent.context_compressor, talk(2)
        engine.update_from_response({"prompt_tokens": 9_000, "completion_tokens": 1, "total_tokens": 9_001})
        engine.compression_count = 1
        agent.reset_session_state()
        self.assertEqual((engine.last_prompt_tokens, engine.compression_count), (0, 0))
        heard = self.heard(engine, "on_session_end", "on_session_reset", "on_session_start")
        agent.session_id = "new"
        agent.reset_session_state(previous_messages=messages, old_session_id="old")
        self.assertEqual([name for name, _, _ in heard], ["on_session_end", "on_session_reset", "on_session_start"])
        self.assertEqual(heard[-1][1], ("new",))
        found = json.loads(engine.handle_tool_call("lcm_grep", {"query": "harbour", "session_scope": "all"}))
        self.assertTrue(found["results"], found)

    def test_a_fold_of_the_host_s_is_published_by_its_word(self):
        agent, messages = self.agent("boundary"), talk(60)
        # As its first turn would have.
        agent._session_db.create_session("boundary", source="cli")
        heard = self.heard(agent.context_compressor, "on_session_start")
        shorter, _prompt = agent._compress_context(messages, None, approx_tokens=60_000, force=True)
        self.assertLess(len(shorter), len(messages))
        self.assertEqual([named.get("boundary_reason") for _, _, named in heard], ["compression"])
        done = subprocess.run([os.environ["LCM_CLI"], "--home", os.path.join(os.environ["HERMES_HOME"], "lcm"), "--format", "json",
                               "log", heard[0][1][0], "--ops"], capture_output=True, text=True, check=True, timeout=60)
        self.assertIn("fold", [json.loads(line).get("what") for line in done.stdout.splitlines()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=pathlib.Path, required=True)
    python, program = parser.parse_args().venv / "bin" / "python", os.environ["LCM_CLI"]

    def is_foreign(name):
        """Whether a variable would reach a model, or is a setting of whoever runs this."""
        return name.lower().endswith("_proxy") or name.endswith("_API_KEY") or name.startswith(("LCM_", "HERMES_"))
    with tempfile.TemporaryDirectory(prefix="lcm-contract-") as home:
        config = pathlib.Path(home) / "config.yaml"
        config.write_text(CONFIG)
        env = {name: value for name, value in os.environ.items() if not is_foreign(name)}
        env |= {"LCM_CLI": program, "HERMES_HOME": home, "HOME": home}
        env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOBODY)

        def lcm(*args):
            done = subprocess.run([program, "--home", home, *args], env=env, capture_output=True, text=True, timeout=60, check=False)
            if done.returncode:
                sys.exit(f"{' '.join(args)}: {done.stdout}{done.stderr}")
        lcm("install", "hermes", "--python", str(python))
        lcm("doctor", "hermes", "--python", str(python))
        tests = subprocess.run([python, "-m", "unittest", "--buffer", pathlib.Path(__file__).stem], env=env,
                               cwd=pathlib.Path(__file__).parent, stderr=subprocess.PIPE, text=True, timeout=200, check=False)
        print(tests.stderr, file=sys.stderr)
        if tests.returncode or "\nRan 0 " in tests.stderr or "\nRan " not in tests.stderr:
            sys.exit("the agent's contract is not kept")
        lcm("uninstall", "hermes")
        left = config.read_text()
        if not left.startswith(CONFIG) or "lcm" in left:
            sys.exit(f"the agent's settings are not as they were: {left}")


if __name__ == "__main__":
    main()
