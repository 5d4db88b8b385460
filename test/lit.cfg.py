# How lit runs the tests: which files, which tools, which features of this machine.
import os

import lit.formats

config.name = "parashard"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "inputs", "python", "lit.cfg.py"]
config.test_source_root = os.path.join(config.parashard_source, "test")
config.test_exec_root = os.path.join(config.parashard_build, "test")

config.environment["PATH"] = os.pathsep.join(
    [config.parashard_tools, config.llvm_tools, os.environ.get("PATH", "")]
)
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --dump-input=fail"
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%python", config.python))
config.substitutions.append(("%source", config.parashard_source))

# REQUIRES: ps-run and so on: a tool that this configuration does not build switches its tests off.
for tool in ("ps-opt", "ps-translate", "ps-run", "ps-compile"):
    if os.path.exists(os.path.join(config.parashard_tools, tool)):
        config.available_features.add(tool)
