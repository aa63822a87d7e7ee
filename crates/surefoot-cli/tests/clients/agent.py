"""Speaks to `surefoot mcp` with the client of the protocol's own Python package, and prints what it got as JSON.

    agent.py SUREFOOT URL
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(surefoot: str, url: str) -> None:
    server = StdioServerParameters(command=surefoot, args=["mcp", "--url", url])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        told = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        context = {"x": 0.5, "device": "phone"}
        decided = await session.call_tool("decide", {"loop": "shop", "event_id": "agent-1", "context": context})
        rewarded = await session.call_tool("reward", {"loop": "shop", "event_id": "agent-1", "reward": 1})
        refused = await session.call_tool("reward", {"loop": "shop", "event_id": "agent-1", "reward": 9})
        read_loop = await session.call_tool("read_loop", {"loop": "shop"})
    print(json.dumps({
        "server": told.server_info.name,
        "tools": tools,
        "decided": decided.structured_content,
        "rewarded": rewarded.structured_content,
        "refused": [refused.is_error, refused.content[0].text],
        "loop": read_loop.structured_content,
    }))


asyncio.run(main(*sys.argv[1:]))
