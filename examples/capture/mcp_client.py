"""Memory over MCP, with the official client: what one session records, the next one finds."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from orders import RULE, settings

home = settings()


async def main() -> None:
    """Record something, find it again, and ask for the context."""
    server = StdioServerParameters(
        command=str(Path(sys.executable).with_name("instar")),
        args=["mcp"],
        env={**os.environ, "INSTAR_HOME": str(home.home)},
    )
    async with Client(stdio_client(server)) as client:
        await client.call_tool("record", {"text": RULE, "kind": "constraint", "session": "s1"})
        await client.call_tool("record", {"text": "Order 7 was sent by train.", "session": "s1"})
        found = await client.call_tool("recall", {"query": "how was order 7 sent", "limit": 1})
        print(found.structured_content["items"][0]["text"])
        context = await client.call_tool("context", {"session": "s1"})
        print(context.structured_content["text"])


asyncio.run(main())
