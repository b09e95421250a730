"""A model server that plays a list of answers as OpenAI's chat completions, whole or streamed.

An answer is ``{"text": ..., "calls": [(tool, arguments)], "hold": name, "usage": {...}}``. All members are optional.
An answer with ``hold`` is sent once :meth:`Model.release` is called with its name. A request without tools (a title, a
summary) gets a fixed text.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model:
    """Listens on a free port of this machine until it is closed."""

    def __init__(self):
        self.answers, self.asked, self.gates = [], [], {}
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                try:
                    model.answer(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        for gate in self.gates.values():
            gate.set()
        self.server.shutdown()
        self.server.server_close()

    def play(self, *answers):
        """Sets the next answers. The rest of an earlier list is dropped."""
        with self.lock:
            self.answers = list(answers)

    def gate(self, name):
        with self.lock:
            return self.gates.setdefault(name, threading.Event())

    def release(self, name):
        self.gate(name).set()

    def answer(self, handler, body):
        with self.lock:
            number = len(self.asked)
            self.asked.append(body)
            if not body.get("tools"):
                reply = {"text": "A scripted answer"}
            elif self.answers:
                reply = self.answers.pop(0)
            else:
                reply = {"calls": [("finish", {"message": "Nothing is left to do."})]}
        if "hold" in reply:
            self.gate(reply["hold"]).wait(60)
        calls = [
            {"index": index, "id": f"call_{number}_{index}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(arguments)}}
            for index, (name, arguments) in enumerate(reply.get("calls", []))
        ]
        usage = {"prompt_tokens": 1000 + 100 * number, "completion_tokens": 50, **reply.get("usage", {})}
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        base = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": body["model"]}
        finish = "tool_calls" if calls else "stop"
        if body.get("stream"):
            pieces = [{"content": word} for word in (reply.get("text") or "").split(" ") if word]
            pieces += [{"tool_calls": [call]} for call in calls]
            self.stream(handler, {**base, "object": "chat.completion.chunk"}, pieces, finish, usage)
            return
        message = {"role": "assistant", "content": reply.get("text")}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": finish}
        content = json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    @staticmethod
    def stream(handler, base, pieces, finish, usage):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True

        def put(value):
            handler.wfile.write(b"data: " + json.dumps({**base, **value}).encode() + b"\n\n")
            handler.wfile.flush()

        for delta in pieces:
            put({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        put({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        put({"choices": [], "usage": usage})
        handler.wfile.write(b"data: [DONE]\n\n")
