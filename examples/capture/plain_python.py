"""No framework: a `with` block records the session, and `recorded` the functions that are its tools."""

import json
from typing import Any

from openai import OpenAI
from orders import ROLE, RULE, TASK, get_order, scripted_model, settings, show

from instar.adapters.capture import capture, recorded

home = settings()
with (
    scripted_model() as endpoint,
    OpenAI(base_url=endpoint.url, api_key="none") as model,
    capture("plain", session="s1", project="shop", bootstrap=ROLE, constraints=[RULE], home=home.home) as recorder,
):
    look_up = recorded(recorder, get_order)
    recorder.message(TASK, speaker="user")
    said: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        context = {"role": "system", "content": recorder.context()}
        answer = model.chat.completions.create(model="any", messages=[context, *said]).choices[0].message
        said.append(answer.model_dump(exclude_none=True))
        if not answer.tool_calls:
            recorder.message(answer.content or "")
            break
        for call in answer.tool_calls:
            result = look_up(**json.loads(call.function.arguments))  # type: ignore[union-attr]
            said.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    print(answer.content)
show(home)
