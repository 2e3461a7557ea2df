"""Drives the product with the real `anthropic` SDK: anthropic_sdk.py BASE_URL KEY SCENARIO; prints what the SDK saw as JSON."""
import json
import sys

import anthropic

base, key, scenario = sys.argv[1:4]
client = anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, timeout=240)
ask = [{"role": "user", "content": "What is the weather in Zürich and 東京?"}]
tools = [{"name": "weather", "description": "Weather of a city",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]
common = {"model": "agents-model", "max_tokens": 1024}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def messages():
    got = client.messages.create(messages=ask, system="Be brief.", **common)
    return {"text": text_of(got), "stop": got.stop_reason, "input": got.usage.input_tokens,
            "cached": got.usage.cache_read_input_tokens, "output": got.usage.output_tokens}


def messages_stream():
    pieces = 0
    with client.messages.stream(messages=ask, **common) as stream:
        for _ in stream.text_stream:
            pieces += 1
        final = stream.get_final_message()
    return {"text": text_of(final), "pieces": pieces, "stop": final.stop_reason, "input": final.usage.input_tokens,
            "output": final.usage.output_tokens,
            "thinking": [[b.thinking, b.signature] for b in final.content if b.type == "thinking"]}


def messages_tools():
    """A tool loop: two parallel calls streamed, both results sent back, then text."""
    history = list(ask)
    with client.messages.stream(messages=history, tools=tools, **common) as stream:
        final = stream.get_final_message()
    calls = [block for block in final.content if block.type == "tool_use"]
    history.append({"role": "assistant", "content": [b.model_dump(exclude_none=True, include={"type", "text", "id", "name", "input", "thinking", "signature"}) for b in final.content]})
    history.append({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": c.id, "content": "sunny in " + c.input["city"]} for c in calls]})
    last = client.messages.create(messages=history, tools=tools, **common)
    return {"calls": [[c.id, c.name, c.input["city"]] for c in calls], "stop": final.stop_reason, "text": text_of(last)}


def count_tokens():
    got = client.messages.count_tokens(model="agents-model", messages=ask)
    return {"tokens": got.input_tokens}


def models():
    return {"ids": [m.id for m in client.models.list()]}


def error():
    try:
        client.messages.create(messages=ask, **common)
    except anthropic.APIStatusError as e:
        return {"class": type(e).__name__, "status": e.status_code, "message": str(e),
                "retry_after": e.response.headers.get("retry-after"), "request_id": e.request_id}
    return {"class": None}


def stream_error():
    """What the SDK makes of a stream that breaks in the middle: it must not look like a normal end."""
    text = ""
    try:
        with client.messages.stream(messages=ask, **common) as stream:
            for piece in stream.text_stream:
                text += piece
    except Exception as e:
        return {"text": text, "class": type(e).__name__, "message": str(e)}
    return {"text": text, "class": None}


print(json.dumps(globals()[scenario](), ensure_ascii=False))
