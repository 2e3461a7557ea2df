"""Drives the product with the real `openai` SDK: openai_sdk.py BASE_URL KEY SCENARIO; prints what the SDK saw as JSON."""
import json
import sys

import openai

base, key, scenario = sys.argv[1:4]
client = openai.OpenAI(base_url=base, api_key=key, max_retries=0, timeout=240)
ask = [{"role": "user", "content": "What is the weather in Zürich and 東京?"}]
function = {"name": "weather", "description": "Weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
tools = [{"type": "function", "function": function}]
flat_tools = [{"type": "function", "strict": False, **function}]


def chat():
    got = client.chat.completions.create(model="agents-model", messages=ask)
    return {"text": got.choices[0].message.content, "finish": got.choices[0].finish_reason,
            "input": got.usage.prompt_tokens, "cached": got.usage.prompt_tokens_details.cached_tokens,
            "output": got.usage.completion_tokens}


def chat_stream():
    seen = {"text": "", "pieces": 0, "usage": None, "finish": None}
    for chunk in client.chat.completions.create(model="agents-model", messages=ask, stream=True,
                                                stream_options={"include_usage": True}):
        for choice in chunk.choices:
            if choice.delta.content:
                seen["text"] += choice.delta.content
                seen["pieces"] += 1
            seen["finish"] = choice.finish_reason or seen["finish"]
        if chunk.usage:
            seen["usage"] = chunk.usage.prompt_tokens
    return seen


def chat_tools():
    """A tool loop: two parallel calls streamed, both results sent back, then text."""
    messages = list(ask)
    with client.chat.completions.stream(model="agents-model", messages=messages, tools=tools) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny in " + json.loads(call.function.arguments)["city"]})
    last = client.chat.completions.create(model="agents-model", messages=messages, tools=tools)
    return {"calls": [[c.id, c.function.name, json.loads(c.function.arguments)["city"]] for c in message.tool_calls],
            "text": last.choices[0].message.content}


def responses():
    got = client.responses.create(model="agents-model", input=ask[0]["content"])
    return {"text": got.output_text, "status": got.status, "input": got.usage.input_tokens,
            "cached": got.usage.input_tokens_details.cached_tokens, "output": got.usage.output_tokens}


def responses_stream():
    text, kinds = "", []
    with client.responses.stream(model="agents-model", input=ask[0]["content"]) as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = stream.get_final_response()
    return {"text": text, "final": final.output_text, "last": kinds[-1], "usage": final.usage.input_tokens}


def responses_tools():
    items = [{"role": "user", "content": ask[0]["content"]}]
    with client.responses.stream(model="agents-model", input=items, tools=flat_tools) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    calls = [item for item in final.output if item.type == "function_call"]
    items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in final.output]
    items += [{"type": "function_call_output", "call_id": c.call_id,
               "output": "sunny in " + json.loads(c.arguments)["city"]} for c in calls]
    last = client.responses.create(model="agents-model", input=items, tools=flat_tools)
    return {"calls": [[c.call_id, c.name, json.loads(c.arguments)["city"]] for c in calls], "text": last.output_text}


def models():
    return {"ids": [m.id for m in client.models.list()]}


def error():
    try:
        client.chat.completions.create(model="agents-model", messages=ask)
    except openai.APIStatusError as e:
        return {"class": type(e).__name__, "status": e.status_code, "message": str(e),
                "retry_after": e.response.headers.get("retry-after"), "request_id": e.request_id}
    return {"class": None}


def stream_error():
    """What the SDK makes of a stream that breaks in the middle: it must not look like a normal end."""
    text = ""
    try:
        for chunk in client.chat.completions.create(model="agents-model", messages=ask, stream=True):
            for choice in chunk.choices:
                text += choice.delta.content or ""
    except Exception as e:
        return {"text": text, "class": type(e).__name__, "message": str(e)}
    return {"text": text, "class": None}


print(json.dumps(globals()[scenario](), ensure_ascii=False))
