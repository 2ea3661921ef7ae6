"""`lcm-cli mcp` under the inspector's command line: lists tools and resources, calls and reads.

    LCM_CLI=target/debug/lcm-cli python3 tests/hosts/mcp/inspector.py FOLDER

FOLDER is where the npm package `@modelcontextprotocol/inspector`, version 2.12.0, is installed.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CLI = os.path.abspath(os.environ["LCM_CLI"])
PROGRAM = pathlib.Path(sys.argv[1]) / "node_modules/.bin/mcp-inspector"


def inspect(home, method, *options):
    # It keeps a catalogue of servers in the home of whoever runs it; this is nobody's.
    environment = {**os.environ, "HOME": home}
    done = subprocess.run(
        [PROGRAM, "--cli", "-e", f"LCM_HOME={home}/data", "--method", method, *options, "--", CLI, "mcp"],
        env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, (method, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def main():
    with tempfile.TemporaryDirectory() as home:
        source = pathlib.Path(home) / "said.json"
        source.write_text(json.dumps([{"role": "user", "content": "the lamp is lit at dusk"}]))
        environment = {**os.environ, "LCM_HOME": f"{home}/data"}
        subprocess.run([CLI, "import", str(source)], env=environment, check=True, capture_output=True)
        tools = inspect(home, "tools/list")["tools"]
        assert [tool["name"] for tool in tools] == ["grep", "expand", "describe", "expand_query"], tools
        called = inspect(home, "tools/call", "--tool-name", "grep", "--tool-arg", "query=lamp")
        assert called["structuredContent"]["total_results"] == 1, called
        resources = inspect(home, "resources/list")["resources"]
        assert [one["uri"] for one in resources] == ["lcm://session/1"], resources
        read = inspect(home, "resources/read", "--uri", "lcm://session/1")
        assert "> the lamp is lit at dusk" in read["contents"][0]["text"], read
    print("inspector: 4 methods answered")


if __name__ == "__main__":
    main()
