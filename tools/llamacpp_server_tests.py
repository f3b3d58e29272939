#!/usr/bin/env python3
"""llama.cpp's own server tests against `glim serve`.

Their source comes with the source package of llama-cpp-python, fetched by pip; it is run as it is, no assertion of it is changed. What
is adapted is the fixture: ServerProcess.start begins `glim serve` with the levers that mean the same, with one small real model in
place of the test models, and what llama-server is told on its command line as defaults of requests (n_predict, seed, temperature,
enable_thinking) is sent with the requests, because glim has no such defaults.

RULES says which tests are not run, and why: the route or feature is not there by design, the test is about the words of one model, or
about llama-server itself. Everything else has to pass: the exit code is that of pytest.

  tools/llamacpp_server_tests.py --work DIR [--markdown FILE] [-- pytest's arguments]
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tarfile

PACKAGE = "llama-cpp-python==0.3.36"
NEEDS = ["pytest", "requests", "openai", "filelock", "wget"]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Tests name many models; glim answers to the names it is given, at most eight.
ALIASES = ["codellama70b", "davinci-002", "gpt-3.5-turbo", "gpt-3.5-turbo-instruct", "text-embedding-3-small", "test", "model"]

DESIGN, MODEL, OTHER = "not there by design", "about one model", "about llama-server"

# (beginning of the test's name, or beginning*end, why it is not run, in a sentence); the first that fits counts.
WORDS = "It asks for the words or the number of tokens of one model."
SHAPE = "The first chunk of a chat has content \"\", as OpenAI's, and not null."
DEBUG = "A reply has no __verbose: /apply-template tells the prompt."
DEFAULTS = "Requests have no defaults of the operator's."
SHIFT = "A context is never shifted: an answer ends where it does."
TOOLS = "Tools are refused where the template cannot tell the model of them."
KEYS = "Keys are made by the server's operator with glim keys, not chosen."
NAMES = "Metrics have glim's names and vLLM's."
RULES = [
    # routes and features
    ("test_router.py", DESIGN, "One server serves one model."),
    ("test_stream.py", DESIGN, "Streams of a router's models; glim has /v1/streams."),
    ("test_proxy.py", DESIGN, "glim fetches nothing for web pages."),
    ("test_mcp_servers.py", DESIGN, "glim runs no tools: clients do."),
    ("test_tools_builtin.py", DESIGN, "glim runs no tools: clients do."),
    ("test_vision_api.py", DESIGN, "glim reads text only."),
    ("test_lora.py", DESIGN, "glim applies no adapters."),
    ("test_rerank.py", DESIGN, "glim ranks no documents."),
    ("test_sleep.py", DESIGN, "A server keeps its model."),
    ("test_slot_save.py", DESIGN, "Caches are not saved to files."),
    ("test_kv_keep_only_active.py", OTHER, "It reads llama-server's log."),
    ("test_compat_gcp.py", DESIGN, "There is no route of that cloud's."),
    ("test_speculative.py", DESIGN, "Drafts come from the text, not from a second model."),
    ("test_tool_call.py::test_completion_with_required_tool_real_model", MODEL, "It runs and asks for the words of one model each."),
    ("test_tool_call.py::test_weather", MODEL, "It runs and asks for the words of one model each."),
    ("test_tool_call.py::test_calc_result", MODEL, "It runs and asks for the words of one model each."),
    ("test_tool_call.py::test_thoughts", MODEL, "It runs and asks for the words of one model each."),
    ("test_tool_call.py::test_hello_world", MODEL, "It runs and asks for the words of one model each."),
    ("test_tool_call.py::test_completion_without_tool_call*STREAMED]", DESIGN, SHAPE),
    ("test_tool_call.py::test_completion_without_tool_call_slow[meetkai-functionary-medium-v3.2-256-tools1", DESIGN,
     "Tools are refused where no dialect reads the template's calls."),
    # Anthropic, responses
    ("test_compat_anthropic.py::test_anthropic_tool_use_basic", MODEL, TOOLS),
    ("test_compat_anthropic.py::test_anthropic_tool_streaming", MODEL, TOOLS),
    ("test_compat_anthropic.py::test_anthropic_streaming_content_block_indices", MODEL, TOOLS),
    ("test_compat_anthropic.py::test_anthropic_tool_result_with_image", DESIGN, "An image is refused with status 400, not 500."),
    ("test_compat_anthropic.py::test_anthropic_vision", DESIGN, "An image is refused with status 400, not 500."),
    ("test_compat_anthropic.py::test_anthropic_empty_messages", DESIGN, "A conversation without messages is refused."),
    ("test_compat_anthropic.py::test_anthropic_thinking_history_in_count_tokens", DESIGN, "A thinking block has its signature, as Anthropic's."),
    ("test_compat_anthropic.py::test_anthropic_thinking_with_reasoning", MODEL, "Marked slow, and about one model."),
    ("test_compat_anthropic.py::test_anthropic_think*ing", MODEL, "Thinking is refused where the template has no switch for it."),
    ("test_compat_oai_responses.py::test_responses_stream_with_llama_telemetry", DESIGN, "The OpenAI routes tell no timings."),
    ("test_compat_oai_responses.py", MODEL, WORDS),
    # security
    ("test_security.py::test_incorrect_api_key", OTHER, KEYS),
    ("test_security.py::test_correct_api_key", OTHER, KEYS),
    ("test_security.py::test_openai_library_correct_api_key", OTHER, KEYS),
    ("test_security.py::test_access_static_assets", OTHER, "It asks for the files of llama-server's page: glim's is one file."),
    ("test_security.py::test_cors", DESIGN, "Web pages of other origins are refused unless the operator lists them."),
    ("test_security.py::test_local_media_file", DESIGN, "glim reads text only."),
    ("test_infill.py::test_infill_with", MODEL, "The model has no tokens for prefix, suffix and middle."),
    # completions
    ("test_completion.py::test_completion[", MODEL, WORDS),
    ("test_completion.py::test_completion_stream[", MODEL, WORDS),
    ("test_completion.py::test_completion_with_openai_library", OTHER, "It asks for a system_fingerprint that begins with b."),
    ("test_completion.py::test_completion_stream_with_openai_library", MODEL, WORDS),
    ("test_completion.py::test_nocache_long_input_prompt", MODEL, "225 tokens of this vocabulary fit into the context."),
    ("test_completion.py::test_completion_parallel_slots[2-4]", MODEL, "This model has nothing to say to one of the prompts."),
    ("test_completion.py::test_completion_parallel_slots[4-6]", MODEL, "This model has nothing to say to one of the prompts."),
    ("test_completion.py::test_completion_response_fields[I believe the meaning of life is-32", MODEL, "It asks for the prompt's <s>."),
    ("test_completion.py::test_n_probs_post", DESIGN, "Probabilities are told before sampling, the model's own."),
    ("test_completion.py::test_completion_prompt_cache", MODEL, WORDS),
    ("test_tokenize.py::test_tokenize_with_bos", MODEL, "It asks for a BOS token of id 1."),
    ("test_ctx_shift.py::test_ctx_shift_enabled", DESIGN, SHIFT),
    ("test_ctx_shift.py::test_ctx_shift_disabled_short_prompt[-1", MODEL, WORDS),
    ("test_ctx_shift.py::test_ctx_shift_disabled_long_prompt", MODEL, "Its text fits into the context with this vocabulary."),
    ("test_ctx_shift.py::test_ctx_shift_disabled_stream", DESIGN, "n_predict is no member of OpenAI's requests: max_tokens is."),
    # embeddings
    ("test_embedding.py::test_embedding_mixed_input[-", DESIGN, "An input without tokens is refused: this vocabulary adds none to \"\"."),
    ("test_embedding.py::test_embedding_mixed_input[input3", DESIGN, "/v1/embeddings takes OpenAI's inputs; /embedding the mixed ones."),
    ("test_embedding.py::test_embedding_mixed_input[input5", DESIGN, "/v1/embeddings takes OpenAI's inputs; /embedding the mixed ones."),
    ("test_embedding.py::test_embedding_mixed_input[input7", DESIGN, "/v1/embeddings takes OpenAI's inputs; /embedding the mixed ones."),
    ("test_embedding.py::test_embedding_mixed_input[input8", DESIGN, "/v1/embeddings takes OpenAI's inputs; /embedding the mixed ones."),
    ("test_embedding.py::test_embedding_mixed_input[input9", DESIGN, "/v1/embeddings takes OpenAI's inputs; /embedding the mixed ones."),
    ("test_embedding.py::test_embedding_mixed_input[input10", DESIGN, "/v1/embeddings takes OpenAI's inputs; /embedding the mixed ones."),
    ("test_embedding.py::test_embedding_content_text_same", DESIGN, "/v1/embeddings takes OpenAI's inputs; /embedding the mixed ones."),
    ("test_embedding.py::test_embedding_pooling_none", DESIGN, "A text has one vector: there is no pooling none."),
    ("test_embedding.py::test_embedding_error_prompt_too_long", OTHER, "It asks for the words of llama-server's error; it is refused."),
    ("test_embedding.py::test_embedding_usage", MODEL, WORDS),
    # templates
    ("test_template.py::test_date_inside_prompt", DESIGN, "Templates get strftime_now, as those of Transformers, not date_string."),
    ("test_template.py::test_reasoning[deepseek-ai-DeepSeek-R1-Distill-Qwen-32B-on-<think>\\n-tools2", DESIGN, TOOLS),
    ("test_template.py::test_reasoning[deepseek-ai-DeepSeek-R1-Distill-Qwen-32B-auto-<think>\\n-tools2", DESIGN, TOOLS),
    ("test_template.py::test_reasoning[deepseek-ai-DeepSeek-R1-Distill-Qwen-32B-off-<think>\\n</think>-tools2", DESIGN, TOOLS),
    # metrics
    ("test_metrics.py::test_metrics_disabled", DESIGN, "/metrics is always there."),
    ("test_metrics.py::test_metrics_prometheus_format", DESIGN, NAMES),
    ("test_metrics.py::test_metrics_prompt_processed_and_cached", DESIGN, NAMES),
    ("test_metrics.py::test_metrics_predicted_total_matches", DESIGN, NAMES),
    ("test_metrics.py::test_metrics_embedding_prompt_is_counted", DESIGN, NAMES),
    ("test_metrics.py::test_metrics_timings_on_prompt_progress", DESIGN, "Progress of the prompt is not told."),
    # the server
    ("test_basic.py::test_server_multiple_addresses", DESIGN, "A server has one address."),
    ("test_basic.py::test_server_props", DESIGN, DEFAULTS),
    ("test_basic.py::test_server_slots", DESIGN, "/slots is always there."),
    ("test_basic.py::test_load_split_model", MODEL, WORDS),
    ("test_basic.py::test_no_ui", DESIGN, "The page is always there."),
    ("test_basic.py::test_server_model_aliases_and_tags", DESIGN, "There are no tags, and the first alias is the name."),
    # chats
    ("test_chat_completion.py::test_chat_completion[", MODEL, WORDS),
    ("test_chat_completion.py::test_chat_completion_cached_tokens", MODEL, WORDS),
    ("test_chat_completion.py::test_chat_completion_stream", DESIGN, SHAPE),
    ("test_chat_completion.py::test_logprobs_stream", DESIGN, SHAPE),
    ("test_chat_completion.py::test_chat_completion_with_openai_library", OTHER, "It asks for a system_fingerprint that begins with b."),
    ("test_chat_completion.py::test_chat_temp*late", DESIGN, DEBUG),
    ("test_chat_completion.py::test_chat_template_assistant_prefill", DESIGN, DEBUG),
    ("test_chat_completion.py::test_chat_template_continue_final_message_vllm_compat", DESIGN, DEBUG),
    ("test_chat_completion.py::test_verbose_debug", DESIGN, DEBUG),
    ("test_chat_completion.py::test_apply_chat_template", OTHER, "It asks for a template that is built into llama-server."),
    ("test_chat_completion.py::test_completion_with_response_format[response_format0", DESIGN,
     "A schema stands in json_schema, as OpenAI has it, and not beside json_object."),
    ("test_chat_completion.py::test_completion_with_response_format[response_format1", DESIGN,
     "A schema stands in json_schema, as OpenAI has it, and not beside json_object."),
    ("test_chat_completion.py::test_completion_with_response_format[response_format2", DESIGN, "json_schema has a name, as OpenAI has it."),
    ("test_chat_completion.py::test_invalid_chat_completion_req[messages7]", DESIGN, "Two messages of the assistant may follow each other."),
    ("test_chat_completion.py::test_chat_completion_with_timings_per_token", DESIGN, "The OpenAI routes tell no timings."),
    ("test_chat_completion.py::test_context_size_exceeded", DESIGN, "The error is OpenAI's: code context_length_exceeded."),
    ("test_chat_completion.py::test_return_progress", DESIGN, "Progress of the prompt is not told."),
    ("test_chat_completion.py::test_chat_completions_multiple_choices", DESIGN, "Sequences have no slot to come back to."),
    ("test_chat_completion.py::test_chat_completions_token_count", DESIGN, "/v1/messages/count_tokens counts, and usage does."),
]


def rule_of(nodeid):
    name = nodeid.replace("unit/", "")
    for beginning, why, sentence in RULES:
        start, _, end = beginning.partition("*")
        if name.startswith(start) and name.endswith(end):
            return why, sentence
    return None


# ---- the plugin: inside of pytest ----

def levers(s, folder):
    """What a ServerProcess asks for, as options of glim serve."""
    slots = s.n_slots or 1
    context = (s.n_ctx or 4096) // (1 if s.kv_unified else slots)
    names = (s.model_alias or "test-model").split(",") + ALIASES
    out = ["--port", s.server_port, "--host", s.server_host, "--n-seq", slots, "--ctx", context, "--alias", ",".join(names[:8])]
    if s.n_batch:
        out += ["--prefill-chunk", s.n_batch]
    if s.pooling:
        out += ["--pooling", s.pooling]
    if s.chat_template_file:
        out += ["--chat-template", os.path.abspath(s.chat_template_file)]
    if s.chat_template:  # the text of a template
        path = os.path.join(folder, f"template-{s.server_port}.jinja")
        with open(path, "w") as f:
            f.write(s.chat_template)
        out += ["--chat-template", path]
    return [str(x) for x in out]


def with_defaults(server, path, data):
    """The request with what llama-server was told to fill in."""
    if path == "/apply-template" and server.reasoning:
        return {**data, "chat_template_kwargs": {"enable_thinking": server.reasoning != "off"}}
    generates = path in ("/completion", "/completions", "/infill", "/v1/completions", "/chat/completions", "/v1/chat/completions")
    if not generates or not isinstance(data, dict):
        return data
    data = dict(data)
    lengths = ("n_predict", "max_tokens", "max_completion_tokens")
    if server.n_predict and server.n_predict > 0 and not any(n in data for n in lengths):
        data["n_predict" if path in ("/completion", "/completions", "/infill") else "max_tokens"] = server.n_predict
    data.setdefault("seed", server.seed)
    data.setdefault("temperature", server.temperature)
    return data


def adapt(utils):
    real_request, real_stream = utils.ServerProcess.make_request, utils.ServerProcess.make_stream_request
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GLIM_", "MUSER_", "METRALE_"))}

    def start(self, timeout_seconds=60):
        argv = [os.environ["TEST_GLIM"], "serve", "-m", os.environ["TEST_MODEL"], *levers(self, os.environ["TEST_FOLDER"])]
        print("tests: starting server with:", " ".join(argv))
        self._log = sys.stdout
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean)
        utils.server_instances.add(self)
        end = utils.time.time() + timeout_seconds
        while utils.time.time() < end:
            try:
                if real_request(self, "GET", "/health").status_code == 200:
                    self.ready = True
                    return
            except utils.requests.exceptions.ConnectionError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError(f"Server process died with return code {self.process.returncode}")
            utils.time.sleep(0.02)
        raise TimeoutError(f"Server did not start within {timeout_seconds} seconds")

    def make_request(self, method, path, data=None, headers=None, timeout=600, host=None):
        return real_request(self, method, path, with_defaults(self, path, data), headers, timeout, host)

    def make_stream_request(self, method, path, data=None, headers=None, host=None):
        return real_stream(self, method, path, with_defaults(self, path, data), headers, host)

    utils.ServerProcess.start = start
    utils.ServerProcess.make_request = make_request
    utils.ServerProcess.make_stream_request = make_stream_request
    utils.ServerPreset.load_all = staticmethod(lambda: None)


results = {}


def pytest_configure(config):
    sys.path.insert(0, os.getcwd())
    import utils
    adapt(utils)


def pytest_collection_modifyitems(config, items):
    import pytest
    for item in items:
        rule = rule_of(item.nodeid)
        if rule:
            item.add_marker(pytest.mark.skip(reason=f"{rule[0]}: {rule[1]}"))


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        seen = results.get(report.nodeid)
        if seen is None or seen[0] == "passed":
            words = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
            results[report.nodeid] = (report.outcome, words.removeprefix("Skipped: "))


def pytest_sessionfinish(session):
    with open(os.path.join(os.environ["TEST_FOLDER"], "results.json"), "w") as f:
        json.dump(results, f, indent=1)


# ---- the program ----

def prepare(work):
    """A virtual environment and the tests; both are kept."""
    python = os.path.join(work, "venv", "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", os.path.join(work, "venv")], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *NEEDS], check=True)
    tree = os.path.join(work, PACKAGE.replace("==", "-"))
    if not os.path.exists(tree):
        subprocess.run([python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", work, PACKAGE], check=True)
        part = tree + ".part"
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(os.path.join(work, PACKAGE.replace("-", "_").replace("==", "-") + ".tar.gz")) as t:
            for m in t.getmembers():
                m.name = m.name.partition("/vendor/llama.cpp/")[2]
                if m.isfile() and m.name.startswith(("tools/server/tests/", "models/templates/")):
                    t.extract(m, part, filter="data")
        os.rename(part, tree)
    return python, os.path.join(tree, "tools", "server", "tests")


def markdown(path, found):
    """A table of the tests: one row for each function and outcome."""
    rows = collections.Counter()
    for name, (outcome, words) in found.items():
        rows[(name.replace("unit/", "").partition("[")[0], outcome, words)] += 1
    with open(path, "w") as f:
        f.write("| test | cases | outcome | why |\n|---|---|---|---|\n")
        for (name, outcome, words), n in sorted(rows.items()):
            f.write(f"| {name} | {n} | {'not run' if outcome == 'skipped' else outcome} | {words} |\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", required=True, help="a folder for what is fetched; it can be used again")
    p.add_argument("--glim", default=os.path.join(ROOT, "build", "glim"))
    p.add_argument("--model", default="smollm2-135m", help="a model file, or the name of a pulled model")
    p.add_argument("--markdown", help="write the table of outcomes there")
    p.add_argument("rest", nargs="*", help="arguments of pytest")
    a = p.parse_args()
    work = os.path.abspath(a.work)
    os.makedirs(work, exist_ok=True)
    python, tests = prepare(work)
    env = {**os.environ, "TEST_GLIM": os.path.abspath(a.glim), "TEST_MODEL": a.model, "TEST_FOLDER": work,
           "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
    r = subprocess.run([python, "-m", "pytest", "-q", "-p", "llamacpp_server_tests", "-p", "no:cacheprovider", *a.rest], cwd=tests, env=env)
    with open(os.path.join(work, "results.json")) as f:
        found = json.load(f)
    print(dict(collections.Counter(outcome for outcome, _ in found.values())))
    if a.markdown:
        markdown(a.markdown, found)
    return r.returncode


if __name__ == "__main__":
    sys.exit(main())
