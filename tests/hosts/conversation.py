"""Conversations as an agent has them, and what a provider would refuse in one."""


def talk(count, words=300, about="harbour"):
    """So many exchanges with a tool call each."""
    messages = []
    for at in range(count):
        messages += [
            {"role": "user", "content": f"measure {about} number {at}"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": f"{about}{at}", "type": "function", "function": {"name": "read", "arguments": '{"path": "%d.txt"}' % at}}]},
            {"role": "tool", "tool_call_id": f"{about}{at}", "content": f"depth {at}: " + f"{about} {at} " * words},
            {"role": "assistant", "content": f"{about} number {at} is {at} metres deep"},
        ]
    return messages + [{"role": "user", "content": "and now?"}]


def problems(messages):
    """What a provider would refuse in a list."""
    found, open_calls, before = [], [], None
    for at, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                found.append(f"{at}: a result of no call")
            else:
                open_calls.remove(message["tool_call_id"])
        else:
            if open_calls:
                found.append(f"{at}: calls without results")
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
            if role == before and role == "user":
                found.append(f"{at}: two users")
            if not message.get("content") and not open_calls:
                found.append(f"{at}: empty")
        before = role
    if messages and messages[0]["role"] != "user":
        found.append("the first is no user")
    return found
