"""LangGraph: a handler, a memory and a checkpointer. Run it twice with the same home: it goes on where it was."""

from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from orders import ROLE, RULE, TASK, get_order, scripted_model, settings, show

from instar.adapters.capture import Recorder
from instar.adapters.langchain import InstarHandler, InstarMemory, InstarSaver, InstarStore
from instar.adapters.langchain.testing import agent

home = settings()
recorder = Recorder(home, agent="langgraph", session="s1", project="shop")
recorder.start(bootstrap=ROLE, constraints=[RULE])
with scripted_model() as endpoint:
    # `agent` builds the usual graph of a model and a ToolNode; see there how the memory is put in.
    graph = agent(
        endpoint.url,
        [StructuredTool.from_function(get_order)],
        memory=InstarMemory(recorder),
        saver=InstarSaver(home, project="shop"),
    )
    config: Any = {"configurable": {"thread_id": "s1"}, "callbacks": [InstarHandler(recorder)]}
    print(graph.invoke({"messages": [HumanMessage(TASK)]}, config)["messages"][-1].text)
recorder.close("success")

store = InstarStore(home, project="shop")
store.put(("customers", "ada"), "likes", {"text": "parcels by train"})
print(store.search(("customers",), query="train")[0].value)
store.close()
show(home)
