"""Small servers that answer like SGLang and vLLM, with the numbers of a real model.

Written after the sources of sglang 0.5.23 and vllm 0.33.0, apart from the clients: log-probs come from one
plain forward pass over prompt and reasoning.
"""

import base64
import io
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from collapsewatch_worker.remote.engines import EngineKind, RemoteModel, remote_model
from collapsewatch_worker.remote.patience import Patience
from tests.worker.small_server import SmallServer

Answer = tuple[int, Any]
"""Status and what is sent: text as it is, all else as JSON."""
CUT: Answer = (0, None)
"""The connection is closed without an answer, as by a server that ends."""
CUT_IN_THE_MIDDLE: Answer = (0, "{")
"""The same after the beginning of a good answer."""


def tiny_llama() -> PreTrainedModel:
    """A model of 40 tokens whose scores differ enough to tell its rows apart."""
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.5,
    )
    model: PreTrainedModel = LlamaForCausalLM(config)
    model.eval()  # type: ignore[no-untyped-call]
    return model


class EngineServer(SmallServer):
    """Keeps what it is asked to score; `script` goes before the truth, `spoil` changes good answers."""

    def __init__(self, model: PreTrainedModel, port: int = 0) -> None:
        self.model = model
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.keys: set[str | None] = set()
        self.script: list[Answer | None] = []
        self.headers: dict[str, str] = {}
        self.spoil: Callable[[Any], Any] = lambda answer: answer
        self.delay_seconds = 0.0
        self.most_at_once = 0
        self._is_ended = False
        self._at_once = 0
        self._lock = threading.Lock()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(engine.get(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(engine.handle(self.path, body, self.headers.get("Authorization")))

            def _send(self, answer: Answer) -> None:
                status, document = answer
                if status == 0 or engine._is_ended:
                    self.close_connection = True
                    self.wfile.write(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{" if document == "{" else b""
                    )
                    return
                content = (document if isinstance(document, str) else json.dumps(document)).encode()
                self.send_response(status)
                for name, value in engine.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(Handler, port)

    def end(self) -> None:
        """As `stop`, with the connections that are open."""
        self._is_ended = True
        self.stop()

    def handle(self, path: str, body: dict[str, Any], key: str | None) -> Answer:
        if "token_ids_logprob" in body:
            return self.post(path, body)
        with self._lock:
            self.requests.append((path, body))
            self.keys.add(key)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            scripted = self.script.pop(0) if self.script else None
        time.sleep(self.delay_seconds)
        status, answer = scripted or self.post(path, body)
        with self._lock:
            self._at_once -= 1
        return status, self.spoil(answer) if scripted is None and status == 200 else answer

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def log_probs(self, ids: list[int]) -> list[float]:
        """Of every token but the first."""
        with torch.inference_mode():
            logits_TV = self.model(torch.tensor([ids])).logits[0, :-1].float()
        log_probs_TV = torch.log_softmax(logits_TV, dim=-1)
        return [float(log_probs_TV[row, token]) for row, token in enumerate(ids[1:])]

    def get(self, path: str) -> Answer:
        raise NotImplementedError

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        raise NotImplementedError


class SglangServer(EngineServer):
    weight_version = "default"
    info_path = "/model_info"

    def get(self, path: str) -> Answer:
        if path != self.info_path:
            return 404, {"detail": "Not Found"}
        return 200, {
            "model_path": "/models/runs/7/step-40",
            "served_model_name": "policy",
            "weight_version": self.weight_version,
        }

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        if path != "/generate":
            return 404, {"detail": "Not Found"}
        assert body["return_logprob"] is True
        assert body["sampling_params"]["max_new_tokens"] == 0
        foreign = [
            token for token in body.get("token_ids_logprob", []) if token >= self.model.config.vocab_size
        ]
        if foreign:
            message = f"token_ids_logprob contains out-of-vocabulary token id {foreign[0]}"
            return 400, {"error": {"message": message}}
        if "logprob_start_len" not in body:
            return 200, {"text": "", "meta_info": {"id": "1", "input_token_logprobs": []}}
        ids, start = body["input_ids"], body["logprob_start_len"]
        assert 0 <= start <= len(ids)
        clipped = [token if token < self.model.config.vocab_size - 1 else 0 for token in ids[start:]]
        values = [None, *self.log_probs(ids)[start:]]
        entries = [[value, token, None] for value, token in zip(values, clipped, strict=True)]
        return 200, {
            "text": "",
            "output_ids": [],
            "meta_info": {
                "id": "1",
                "finish_reason": {"type": "length", "length": 0},
                "prompt_tokens": len(ids),
                "weight_version": self.weight_version,
                "input_token_logprobs": entries,
                "output_token_logprobs": [],
            },
        }


class VllmServer(EngineServer):
    has_token_route = True
    max_model_len = 64
    block_size = 4
    root = "/models/runs/7/step-40"

    def __init__(self, model: PreTrainedModel, port: int = 0) -> None:
        super().__init__(model, port)
        self._cached: set[tuple[str, tuple[int, ...]]] = set()
        self.num_tokens_computed = 0

    def get(self, path: str) -> Answer:
        if path != "/v1/models":
            return 404, {"detail": "Not Found"}
        base = {"id": "policy", "root": self.root, "parent": None}
        adapter = {"id": "adapter-3", "root": "/models/adapters/3", "parent": "policy"}
        cards = [{**base, "max_model_len": self.max_model_len}, {**adapter, "max_model_len": None}]
        return 200, {"object": "list", "data": cards}

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        if path == "/v1/completions":
            return self._completion(body)
        if path == "/inference/v1/generate" and self.has_token_route:
            return self._generate(body)
        return 404, {"detail": "Not Found"}

    def _completion(self, body: dict[str, Any]) -> Answer:
        assert body["max_tokens"] == 1
        ids = body["prompt"]
        if max(ids) >= self.model.config.vocab_size:
            return 400, {"error": {"message": f"Token id {max(ids)} is out of vocabulary"}}
        if len(ids) + 1 > self.max_model_len:
            message = f"This model's maximum context length is {self.max_model_len} tokens."
            return 400, {"error": {"message": message, "type": "BadRequestError", "code": 400}}
        self.num_tokens_computed += len(ids)
        entries: list[Any] = [None]
        for token, value in zip(ids[1:], self.log_probs(ids), strict=True):
            entries.append({str(token): {"logprob": value, "rank": 1, "decoded_token": "x"}})
        choice = {"index": 0, "text": "x", "finish_reason": "length", "prompt_logprobs": entries}
        return 200, {"object": "text_completion", "model": body["model"], "choices": [choice]}

    def _generate(self, body: dict[str, Any]) -> Answer:
        ids, params = body["token_ids"], body["sampling_params"]
        if max(ids) >= self.model.config.vocab_size:
            return 400, {"error": {"message": f"Token id {max(ids)} is out of vocabulary"}}
        start, wanted = params["prompt_logprob_start"], params["prompt_logprob_token_ids"]
        assert len(wanted) == len(ids) - 1 - start
        assert [row[0] for row in wanted] == ids[start + 1 :]
        num_cached = 0 if params["skip_reading_prefix_cache"] else self._looked_up(body["cache_salt"], ids)
        self.num_tokens_computed += len(ids) - num_cached
        encoded = None
        if num_cached <= start:
            encoded = npy_in_base64(np.array(self.log_probs(ids)[start:], dtype=np.float32)[:, None])
        return 200, {"request_id": "1", "choices": [{"index": 0}], "prompt_token_id_logprobs": encoded}

    def _looked_up(self, salt: str, ids: list[int]) -> int:
        """Tokens found in the cache, in whole blocks and at most all but one; then all blocks are kept."""
        ends = range(self.block_size, len(ids) + 1, self.block_size)
        blocks = [(salt, tuple(ids[:end])) for end in ends]
        with self._lock:
            num_found = 0
            for _, block in blocks:
                if (salt, block) not in self._cached or len(block) >= len(ids):
                    break
                num_found = len(block)
            self._cached.update(blocks)
        return num_found


def npy_in_base64(values: Any) -> str:
    content = io.BytesIO()
    np.save(content, values)
    return base64.b64encode(content.getvalue()).decode()


def remote(server: EngineServer, **options: Any) -> RemoteModel:
    kind: EngineKind = "sglang" if isinstance(server, SglangServer) else "vllm"
    options = {"api_key": None, "tokenizer": None, "patience": Patience(0.0), **options}
    return remote_model(kind, server.url, **options)
