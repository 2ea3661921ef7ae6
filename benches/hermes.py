"""What the engine for the Hermes Agent costs on the host's thread. `LCM_CLI` names the program; prints one JSON object,
milliseconds of wall time.

    LCM_CLI=target/release/lcm-cli python3 benches/hermes.py

The host is the one that stands in for the tests; what is measured is ours alone: the calls that a host makes in a turn over a
live history of 1 MB, folding 200,000 tokens without a model with and without leaves prepared, and the start of an agent.
"""
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "hosts" / "engine"))
from host import Database, Settings, plugin, talk

ROUNDS = 50
WINDOW = 1_000_000


def ms(began):
    return (time.perf_counter() - began) * 1000


def spread(times):
    times = sorted(times)
    return {"p50": round(statistics.median(times), 3), "p99": round(times[len(times) * 99 // 100], 3), "n": len(times)}


def started(session, home, window=WINDOW):
    """An agent's engine, and what making it took."""
    began = time.perf_counter()
    engine = plugin.LCMEngine()
    engine.update_model(model="big-1", context_length=window)
    engine.bind_session_state(session_db=Database(), session_id=session)
    engine.get_tool_schemas()
    engine.on_session_start(session, hermes_home=home, platform="cli", model="big-1", context_length=window)
    return engine, ms(began)


def history(characters):
    """A conversation of about so many characters, and no open request at its end."""
    messages = []
    while sum(len(str(message.get("content"))) for message in messages) < characters:
        messages += talk(20, words=150, about=f"pier{len(messages)}x")[:-1]
    return messages


def turns(home):
    """The calls of one turn without a fold: the list weighed, usage, what goes into the request, the end of the turn."""
    engine, _ = started("turns", home)
    messages = history(1_000_000)
    engine.on_turn_complete(messages)
    times = {"preflight": [], "update_from_response": [], "should_compress": [], "select_context": [], "on_turn_complete": [], "turn": []}
    for at in range(ROUNDS):
        messages = messages + [{"role": "user", "content": f"and item {at}?"}]
        request = [{"role": "system", "content": "You are an agent."}, *messages]
        after = [*messages, {"role": "assistant", "content": f"item {at} is done"}]
        whole = 0.0
        for name, call in (
            ("preflight", lambda: engine.should_compress_preflight(messages)),
            ("should_compress", lambda: engine.should_compress(250_000)),
            ("select_context", lambda: engine.select_context(request, conversation_messages=messages, incoming_message=messages[-1], budget_tokens=WINDOW)),
            ("update_from_response", lambda: engine.update_from_response({"prompt_tokens": 250_000, "completion_tokens": 20})),
            ("on_turn_complete", lambda: engine.on_turn_complete(after)),
        ):
            began = time.perf_counter()
            call()
            times[name].append(ms(began))
            whole += times[name][-1]
        messages = after
        times["turn"].append(whole)
    return {name: spread(took) for name, took in times.items()}


def fold(home, session, is_prepared):
    """Folding 200,000 tokens without a model."""
    engine, _ = started(session, home, window=260_000)
    messages = talk(200, words=300, about=f"{session}x")
    if is_prepared:
        engine.on_turn_complete(messages[:-1])
        # What is prepared between turns has as long as the person takes to answer.
        time.sleep(5)
    began = time.perf_counter()
    shorter = engine.compress(messages, current_tokens=200_000)
    took = ms(began)
    assert len(shorter) < len(messages), engine._last_summary_error
    return round(took, 1)


def main():
    if not os.environ.get("LCM_CLI"):
        sys.exit("LCM_CLI does not name the program to measure")
    with tempfile.TemporaryDirectory(prefix="lcm-bench-") as home:
        os.environ["HERMES_HOME"] = home
        os.environ.pop("LCM_HOME", None)
        Settings.said = {"lcm": {"host_summaries": False, "context_threshold": 0.35}}
        report = {"start_first": round(started("first", home)[1], 1)}
        report["start_next"] = spread([started(f"next{at}", home)[1] for at in range(ROUNDS)])
        report["turn_1mb"] = turns(home)
        report["fold_200k"] = [fold(home, f"cold{at}", False) for at in range(5)]
        report["fold_200k_prepared"] = [fold(home, f"warm{at}", True) for at in range(3)]
        plugin.Client(os.path.join(home, "lcm")).close()
        print(json.dumps(report))


if __name__ == "__main__":
    main()
