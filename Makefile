# run · app · test · test-app · install · uninstall · lint · lint-app · bench · package. Each target first installs what it
# needs on Debian and Ubuntu, once; elsewhere it says what is missing. Only those of the desktop app need WebKitGTK and
# Node.js. CARGO_FLAGS goes to every cargo call (CI: --locked).
.DEFAULT_GOAL := run
.PHONY: run app ui test test-app install uninstall test-setup peers lint lint-app bench bench-builtin bench-app icons package tarball

CARGO_FLAGS ?=
PREFIX      ?= $(HOME)/.local
BUILD       := $(or $(CARGO_TARGET_DIR),target)
VENV        := $(or $(METACLAW_TEST_VENV),tests/.venv)
SKIPPED     := $(abspath $(BUILD))/skipped-peers.txt
PEERS       := $(or $(METACLAW_PEERS),$(HOME)/.cache/metaclaw-peers)
SMALL       := smollm2-135m-instruct
# The small model for the tests: a given one, that of a peer, or the one that MetaClaw fetches itself.
MODEL       := $(or $(METACLAW_TEST_MODEL),$(wildcard $(PEERS)/llm/$(SMALL).gguf),$(PEERS)/builtin/models/$(SMALL).gguf)
VERSION     := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
NAME        := metaclaw-$(VERSION)-$(shell uname -s | tr A-Z a-z)-$(shell uname -m)

# The app and the command, as cargo is told of them: built together, so that they share what they are made of.
DESKTOP     := -p metaclaw-app -p metaclaw-cli --features metaclaw-app/desktop
DEB         := metaclaw_$(VERSION)_$(shell dpkg --print-architecture 2>/dev/null).deb

# Where rustup puts cargo, for the shell that does not know it yet.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Starts the service; the first start asks for what it needs to know. TRY=yes: without a key, with a small model that is
# fetched once (98 MB), and with two first turns.
run:
	@scripts/need cargo cc
	cargo run --release $(CARGO_FLAGS) -p metaclaw-cli -- start $(if $(TRY),--try)

# The window and the tray icon around the service.
app: ui
	@scripts/need cargo cc webkit
	cargo run --release $(CARGO_FLAGS) -p metaclaw-app --features desktop

# The window's pages, with exactly the packages of the lock file.
ui: ui/dist/index.html
ui/dist/index.html: ui/node_modules/.package-lock.json ui/index.html $(shell find ui/src ui/public ui/icons.svg -type f)
	cd ui && npm run --silent build
ui/node_modules/.package-lock.json: ui/package-lock.json
	@scripts/need npm
	cd ui && npm ci --no-audit --no-fund --loglevel=error
	touch $@

# Puts the command `metaclaw` into $(PREFIX)/bin.
install:
	@scripts/need cargo cc
	cargo build --release $(CARGO_FLAGS) -p metaclaw-cli
	mkdir -p $(PREFIX)/bin
	install -m 755 $(BUILD)/release/metaclaw $(PREFIX)/bin/metaclaw
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "$(PREFIX)/bin is not on your PATH yet: export PATH=$(PREFIX)/bin:\$$PATH";; esac

# Takes away what `make install`, `make run` and MetaClaw put on this machine: models, the service's own files and the command.
# Settings, turns, memories and skills stay; EVERYTHING=yes takes them too, after a second question. YES=yes asks nothing.
uninstall:
	@program=; for one in $(PREFIX)/bin/metaclaw $(BUILD)/release/metaclaw; do [ -n "$$program" ] || [ ! -x $$one ] || program=$$one; done; \
	if [ -z "$$program" ]; then echo "there is no metaclaw in $(PREFIX)/bin or $(BUILD)/release"; exit 1; fi; \
	$$program uninstall $(if $(EVERYTHING),--everything) $(if $(YES),--yes $(if $(EVERYTHING),--yes-everything))
	rm -f $(PREFIX)/bin/metaclaw

# Everything there is to prove, the end-to-end tests included, but for the desktop app. cargo-nextest is used where it is
# installed.
test: test-setup
	@scripts/need cargo cc
	cargo build $(CARGO_FLAGS) --workspace --bins --tests
	@[ -e "$(MODEL)" ] || METACLAW_HOME=$(PEERS)/builtin $(BUILD)/debug/metaclaw models fetch $(SMALL) --yes || \
	    echo "the small model cannot be fetched; the tests that need it say so and pass"
	@rm -f $(SKIPPED)
	export METACLAW_SKIPPED=$(SKIPPED); status=0; \
	if cargo nextest --version >/dev/null 2>&1; \
	    then cargo nextest run $(CARGO_FLAGS) --workspace && cargo test $(CARGO_FLAGS) --workspace --doc; \
	    else cargo test $(CARGO_FLAGS) --workspace --no-fail-fast; fi || status=$$?; \
	if [ -e $(SKIPPED) ]; then echo "passed without their peer:"; sort -u $(SKIPPED); fi; exit $$status

# The app's own tests, then the app in a real desktop session without a screen: tray, menu, window, notifications.
# METACLAW_APP=PATH takes a given build, METACLAW_SHOTS=FOLDER keeps pictures; tests/desktop/shots.py FOLDER takes one of
# every page.
test-app: ui
	@scripts/need cargo cc webkit desktop
	cargo build $(CARGO_FLAGS) $(DESKTOP) --bins --tests
	cargo test $(CARGO_FLAGS) $(DESKTOP) --bin metaclaw-app
	METACLAW_NO_SKIP=1 CARGO_TARGET_DIR=$(abspath $(BUILD)) \
	    /usr/bin/python3 -m unittest discover --start-directory tests/desktop --verbose

# The real SDKs that the tests drive, pinned, in a virtual environment.
test-setup: $(VENV)/requirements.txt
$(VENV)/requirements.txt: tests/clients/requirements.txt
	@scripts/need venv
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	cp $< $@

# Real agents for the tests that skip without them (about 600 MB, into $(PEERS)).
peers: $(PEERS)/codex/ready $(PEERS)/claude-code/ready
$(PEERS)/codex/ready:
	@scripts/need npm
	npm install --silent --no-audit --no-fund --prefix $(@D) @openai/codex@0.171.0
	touch $@
$(PEERS)/claude-code/ready:
	@scripts/need npm
	npm install --silent --no-audit --no-fund --prefix $(@D) @anthropic-ai/claude-code@2.1.332
	touch $@

lint:
	@scripts/need cargo cc
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc $(CARGO_FLAGS) --workspace --no-deps --quiet
	@if cargo deny --version >/dev/null 2>&1; then \
	    cargo deny --workspace check bans licenses sources && \
	    if cargo deny fetch db >/dev/null 2>&1; then cargo deny --workspace check advisories; \
	    else echo "skipped: advisories, since their database cannot be reached"; fi; \
	else echo "skipped: cargo-deny is not installed (cargo install --locked cargo-deny)"; fi

lint-app: ui
	@scripts/need cargo cc webkit
	cargo clippy $(CARGO_FLAGS) $(DESKTOP) --all-targets -- -D warnings

# The figures of the README, measured here and now; prints a Markdown table.
bench:
	@scripts/need cargo cc wrk nginx
	cargo build --release $(CARGO_FLAGS) -p metaclaw-cli -p metaclaw-tests --bin metaclaw --bin bench
	$(BUILD)/release/bench

# Those of the built-in model, beside llama-server (found as tests/src/peers.rs says).
bench-builtin:
	@scripts/need cargo cc
	cargo build --release $(CARGO_FLAGS) -p metaclaw-cli -p metaclaw-tests --bin metaclaw --bin bench
	$(BUILD)/release/bench builtin

# The app's own figures, of the release build in a session without a screen: memory, idle time, start, window.
bench-app: ui
	@scripts/need cargo cc webkit desktop
	cargo build --release $(CARGO_FLAGS) $(DESKTOP)
	METACLAW_APP=$(abspath $(BUILD))/release/metaclaw-app /usr/bin/python3 tests/desktop/figures.py

# The pictures of the tray and of the program, from icons/*.svg.
icons:
	@scripts/need rsvg-convert
	python3 scripts/icons

# A Debian package with the app and the command, in $(BUILD)/package, and the checksum beside it.
package: ui
	@scripts/need cargo cc webkit dpkg-deb dpkg-shlibdeps
	cargo build --release $(CARGO_FLAGS) $(DESKTOP)
	scripts/deb $(BUILD)/release $(BUILD)/package/$(DEB)
	cd $(BUILD)/package && sha256sum $(DEB) | tee $(DEB).sha256

# A tarball with the command alone, its licence, man pages and shell completions, for machines without a display.
tarball:
	@scripts/need cargo cc
	cargo build --release $(CARGO_FLAGS) -p metaclaw-cli
	rm -rf $(BUILD)/package/$(NAME)
	mkdir -p $(BUILD)/package/$(NAME)/completions
	cp $(BUILD)/release/metaclaw README.md LICENSE CHANGELOG.md $(BUILD)/package/$(NAME)/
	$(BUILD)/release/metaclaw man $(BUILD)/package/$(NAME)/man
	for shell in bash zsh fish; do \
	    $(BUILD)/release/metaclaw completion $$shell >$(BUILD)/package/$(NAME)/completions/metaclaw.$$shell || exit 1; done
	tar -C $(BUILD)/package --owner=0 --group=0 --sort=name -czf $(BUILD)/package/$(NAME).tar.gz $(NAME)
	cd $(BUILD)/package && sha256sum $(NAME).tar.gz | tee $(NAME).tar.gz.sha256
