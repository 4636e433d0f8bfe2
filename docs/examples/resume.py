#!/usr/bin/env python3
"""A chat whose answer outlives its connection: the openai package, X-Conversation-Id, and GET /v1/stream/ID.

    resume.py http://127.0.0.1:8000/v1 "Tell me a story"
"""
import sys
import time
import uuid

import openai
from openai.types.chat import ChatCompletionChunk


def stream_chat(client, patience_s=60, **request):
    """Yields the chunks of client.chat.completions.create(stream=True, ...), each once, whatever becomes of the connection.

    The server keeps the stream under a name of ours. When the connection is lost, it is asked for again, at the same address, and
    the chunks that were seen are passed over. For one choice (n = 1): several take turns in no fixed order."""
    name, seen, lost_at = str(uuid.uuid4()), 0, None
    begun = False
    while True:
        try:
            if begun:
                stream = client.get(f"/stream/{name}", cast_to=ChatCompletionChunk, stream=True, stream_cls=openai.Stream[ChatCompletionChunk])
            else:
                begun = True  # as far as we know
                stream = client.chat.completions.create(stream=True, extra_headers={"X-Conversation-Id": name}, **request)
            finished = False
            for count, chunk in enumerate(stream, 1):
                if count > seen:
                    seen, lost_at = count, None
                    yield chunk
                finished = finished or any(c.finish_reason for c in chunk.choices)
            if finished:
                return
        except openai.NotFoundError:
            if seen:
                raise  # kept too long, or lost: what came cannot be continued
            begun = False  # our request never arrived
        except (openai.APIConnectionError, openai.InternalServerError, openai.RateLimitError):
            pass
        except Exception as e:  # the connection broke in the middle: httpx' error comes through as it is
            if not type(e).__module__.startswith("httpx"):
                raise
        lost_at = lost_at or time.monotonic()
        if time.monotonic() - lost_at > patience_s:
            raise TimeoutError(f"the stream did not come back within {patience_s} s")
        time.sleep(0.1)


def main():
    client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
    model = client.models.list().data[0].id
    for chunk in stream_chat(client, model=model, messages=[{"role": "user", "content": sys.argv[2]}]):
        for choice in chunk.choices:
            print(choice.delta.content or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
