# glim. `make` builds build/glim, `make demo` talks to a small model, `make test` runs everything that needs no GPU.
#
#   SAN=1 or TSAN=1   build in build-san or build-tsan with the address + undefined, or the thread sanitizer
#   T=pattern         with `make test`: only the suites whose label matches (docs/TESTING.md)
#   SECONDS=60        with `make fuzz`: how long each fuzzer runs
#   YES=1             install missing Debian or Ubuntu packages without asking
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local
SECONDS := 60
B       := build$(if $(TSAN),-tsan,$(if $(SAN),-san))
OPTIONS := -DCMAKE_BUILD_TYPE=$(if $(TSAN)$(SAN),Debug,Release) -DGLIM_SAN=$(if $(SAN),ON,OFF) \
           -DGLIM_TSAN=$(if $(TSAN),ON,OFF) -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
           $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache)
GENERATOR := $(if $(shell command -v ninja),-G Ninja)
FORMATTED  = $(shell find src include tests -name '*.[ch]')

.PHONY: all demo test fuzz docs install clean format

all:
	@cmake $(if $(wildcard $(B)/CMakeCache.txt),,$(GENERATOR)) $(OPTIONS) -S . -B $(B) >/dev/null
	@cmake --build $(B) --parallel --target glim

demo:
	@tools/deps.sh build
	@$(MAKE) --no-print-directory all
	@$(B)/glim pull smollm2-135m
	$(B)/glim run -m smollm2-135m --chat -p "What is the capital of France? Answer in one sentence." -n 64

test:
	@tools/deps.sh test
	@$(PYTHON) tests/run.py $(if $(T),--only '$(T)')

fuzz:
	@tools/deps.sh test
	@$(PYTHON) tests/run.py --only '$(or $(T),fuzz/*)' --seconds $(SECONDS)

docs: all
	$(B)/glim levers --markdown > docs/LEVERS.md
	$(B)/glim text > docs/TEXT.md
	$(B)/glim serve --markdown > docs/SERVER.md

install: all
	cmake --install $(B)

clean:
	rm -rf build build-san build-tsan build-fuzz

format:
	clang-format -i $(FORMATTED)
