"""`lcm-cli mcp` in the hands of the official SDK for Python: begins, lists, calls, gives up, is told how it gets on, reads
resources, answers a question with the client's model; in the protocol with a handshake and in the one without.

    LCM_CLI=target/debug/lcm-cli python3 tests/hosts/mcp/sdk.py     # with the package mcp, version 2.3.0
"""
import json
import os
import pathlib
import subprocess
import tempfile

import anyio
import mcp.types as types
from mcp.client import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

CLI = os.environ["LCM_CLI"]
SAID = ["the lamp on pier 3 is lit at dusk", "why is it dark?", "灯塔" * 20_000]
CHECKS = []


def check(what, is_so):
    assert is_so, what
    CHECKS.append(what)


def store(home):
    source = pathlib.Path(home).with_name("said.json")
    source.write_text(json.dumps([{"role": "user", "content": said} for said in SAID]))
    done = subprocess.run(
        [CLI, "import", str(source), "--session", "one"], env={**os.environ, "LCM_HOME": home}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def server(home, *args):
    return StdioServerParameters(command=CLI, args=["mcp", *args], env={"LCM_HOME": home})


async def calls(home):
    steps = []

    async def model(_context, params):
        check("the originals are sent as data", "| the lamp on pier 3" in params.messages[0].content.text)
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text="At dusk."), model="m-1", stop_reason="endTurn"
        )

    async def step(progress, _total, message):
        steps.append((progress, message))

    async with stdio_client(server(home)) as (read, write), ClientSession(read, write, sampling_callback=model) as session:
        begun = await session.initialize()
        check("the newest protocol with a handshake", begun.protocol_version == "2025-11-25")
        await session.send_ping()
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        check("tools are listed", list(tools) == ["grep", "expand", "describe", "expand_query"])
        hints = tools["grep"].annotations
        check("they are read-only", hints.read_only_hint is True and hints.destructive_hint is False)
        for name in ("grep", "lcm_grep"):
            found = await session.call_tool(name, {"query": "lamp"})
            check(f"{name} finds", found.structured_content["total_results"] == 1 and not found.is_error)
            check(f"{name} says the same twice", json.loads(found.content[0].text) == found.structured_content)
        pages, cursor = [], None
        while True:
            page = await session.call_tool("expand", {"store_id": 3, **({"cursor": cursor} if cursor else {})})
            check("a page is small", len(page.content[0].text.encode()) <= 16_000)
            pages.append(page.structured_content["expanded"][0]["content"])
            cursor = page.structured_content.get("cursor")
            if not cursor:
                break
        lines = [page.removeprefix("[lcm:quote]\n> ").removesuffix("\n[lcm:end]") for page in pages]
        check("pages are all of it", len(pages) > 5 and "".join(lines) == SAID[2])
        wrong = await session.call_tool("grep", {"query": "x", "limit": "many"})
        check("what is wrong is said", wrong.is_error and "limit" in wrong.structured_content["error"])
        answer = await session.call_tool("expand_query", {"prompt": "when?", "query": "lamp"}, progress_callback=step)
        check("the client's model answers", "> At dusk." in answer.structured_content["answer"])
        check("its name is told", answer.structured_content["model"] == "m-1")
        check("the client is told how it gets on", [message for _, message in steps] == ["the client's model is asked"])
        listed = (await session.list_resources()).resources
        check("sessions are listed", [str(one.uri) for one in listed] == ["lcm://session/1"])
        check("templates too", len((await session.list_resource_templates()).resource_templates) == 2)
        read = (await session.read_resource("lcm://session/1")).contents[0].text
        check("a session is read", "> why is it dark?" in read or "?before=" in read)
        node = json.loads((await session.read_resource("lcm://node/1")).contents[0].text)
        check("a node is read", "the lamp" in node["expanded"][0]["content"])


async def giving_up(home):
    asked, ended = anyio.Event(), anyio.Event()

    async def model(_context, _params):
        asked.set()
        try:
            await anyio.sleep(60)
        finally:
            ended.set()
        return types.ErrorData(code=-1, message="too late")

    async with stdio_client(server(home)) as (read, write), ClientSession(read, write, sampling_callback=model) as session:
        await session.initialize()
        async with anyio.create_task_group() as group:
            group.start_soon(session.call_tool, "expand_query", {"prompt": "when?", "query": "lamp"})
            with anyio.fail_after(20):
                await asked.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            await ended.wait()
            await session.send_ping()
            found = await session.call_tool("grep", {"query": "lamp"})
        check("a call that is given up keeps nobody waiting", found.structured_content["total_results"] == 1)


async def without_a_handshake(home):
    async with Client(stdio_client(server(home, "--set", "mcp.full_names=true"))) as client:
        tools = await client.list_tools()
        check("long names are offered", tools.tools[0].name == "lcm_grep")
        found = await client.call_tool("grep", {"query": "lamp"})
        check("short ones are answered", found.structured_content["total_results"] == 1)


async def scopes(home):
    for scope, count in (("session=one", 1), ("agent=nobody", 0), ("agent=default,person=owner", 1)):
        async with stdio_client(server(home, "--scope", scope)) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            found = await session.call_tool("grep", {"query": "lamp"})
            check(f"{scope} reads {count}", found.structured_content["total_results"] == count)


def main():
    with tempfile.TemporaryDirectory() as folder:
        home = os.path.join(folder, "data")
        store(home)
        for part in (calls, giving_up, without_a_handshake, scopes):
            anyio.run(part, home)
        check("the socket is gone with the last", not (pathlib.Path(home) / "serve.sock").exists())
    print(f"sdk: {len(CHECKS)} checks passed")


if __name__ == "__main__":
    main()
