# Configures lit: test files, tools, and features of this build.
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
include_dirs = [*config.mlir_include_dirs, config.parashard_source, os.path.join(config.parashard_source, "include")]
config.substitutions.append(("%tblgen", " ".join(["mlir-tblgen", *(f"-I{folder}" for folder in include_dirs)])))
config.substitutions.append(("%source", config.parashard_source))

# Each built tool is a feature, so that `REQUIRES: ps-run` skips a test if ps-run is not built.
for tool in ("ps-opt", "ps-translate", "ps-run", "ps-compile"):
    if os.path.exists(os.path.join(config.parashard_tools, tool)):
        config.available_features.add(tool)
