"""A host to stand in for the Hermes Agent: as much of its modules as the engine meets, made here, before the plugin is loaded.

The real hosts are driven by `.ci/run`; here is what they do rarely, or never on purpose.
"""
import abc
import os
import pathlib
import sys
import types

HOSTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HOSTS), str(HOSTS / "client")]
from conversation import problems, talk  # for the tests beside
from support import Case, loaded, real_program


class ContextEngine(abc.ABC):
    """What hosts call on every engine."""

    threshold_percent, protect_first_n, protect_last_n = 0.75, 3, 6

    @property
    @abc.abstractmethod
    def name(self): ...

    @abc.abstractmethod
    def update_from_response(self, usage): ...

    @abc.abstractmethod
    def should_compress(self, prompt_tokens=None): ...

    @abc.abstractmethod
    def compress(self, messages, current_tokens=None, focus_topic=None, force=False): ...

    def update_model(self, model, context_length, base_url="", api_key="", provider="", api_mode=""):
        self.context_length = context_length
        self.threshold_tokens = int(context_length * self.threshold_percent)


class ContextCompressor:
    """The host's own compressor."""

    made = 0

    def __init__(self, model, quiet_mode=False, config_context_length=None):
        type(self).made += 1
        self.model, self._last_summary_error, self._last_compress_aborted = model, None, False

    def compress(self, messages, current_tokens=None):
        return [messages[0], messages[-1]]


class Model:
    """The host's auxiliary model: `answer` is what it says, or what it raises."""

    answer, asked = "The harbour was measured and found to be deep.", 0

    @classmethod
    def call_llm(cls, task=None, *, main_runtime=None, messages, timeout=None):
        cls.asked += 1
        answer = cls.answer() if callable(cls.answer) else cls.answer
        return types.SimpleNamespace(model="small-1", choices=[types.SimpleNamespace(message=types.SimpleNamespace(content=answer))])


class Settings:
    """The host's config.yaml."""

    said = {}


def module(name, **holds):
    made = types.ModuleType(name)
    made.__dict__.update(holds)
    sys.modules[name] = made


module("agent")
module("agent.context_engine", ContextEngine=ContextEngine)
module("agent.context_compressor", ContextCompressor=ContextCompressor)
module("agent.auxiliary_client", call_llm=lambda *args, **named: Model.call_llm(*args, **named))
module("hermes_cli")
module("hermes_cli.config", load_config=lambda: Settings.said)
module("hermes_constants", get_hermes_home=lambda: pathlib.Path(os.environ["HERMES_HOME"]))

plugin = loaded("lcm_plugin_in_host")


class Database:
    """The host's database of sessions, by id."""

    def __init__(self, **sessions):
        self.sessions = sessions

    def get_session(self, session_id):
        return self.sessions.get(session_id)


class Hosted(Case):
    """A test with a Hermes home of its own."""

    def setUp(self):
        super().setUp()
        real_program()
        self.was = dict(os.environ)
        os.environ["HERMES_HOME"] = self.hermes_home = self.home("hermes")
        os.environ.pop("LCM_HOME", None)
        Settings.said, Model.answer, Model.asked, ContextCompressor.made = {}, "The harbour was measured and found to be deep.", 0, 0

    def tearDown(self):
        plugin.Client(self.data).close()
        os.environ.clear()
        os.environ.update(self.was)
        super().tearDown()

    @property
    def data(self):
        return os.path.join(self.hermes_home, "lcm")

    def engine(self, session="s", window=100_000, db=None, person=None):
        """An agent's engine, started as hosts start it."""
        class Context:
            def register_context_engine(self, engine):
                self.engine = engine

            def register_command(self, *args, **named):
                pass
        context = Context()
        plugin.register(context)
        engine = context.engine
        engine.update_model(model="big-1", context_length=window, base_url="", api_key="k", provider="custom", api_mode="")
        engine.bind_session_state(session_db=Database() if db is None else db, session_id=session)
        engine.get_tool_schemas()
        engine.on_session_start(session, hermes_home=self.hermes_home, platform="cli", model="big-1", context_length=window,
                                conversation_id=person)
        return engine
