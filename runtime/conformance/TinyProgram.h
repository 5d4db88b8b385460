// Declares a hand-written program, which tests use in place of a compiled one. The program trains a
// linear model with mean squared error by SGD, data-parallel and with two micro-batches.
#ifndef PSRT_CONFORMANCE_TINYPROGRAM_H
#define PSRT_CONFORMANCE_TINYPROGRAM_H

#include "runtime/core/Program.h"

/// Numbers of rows and columns of a micro-batch.
inline constexpr int64_t tinyRows = 8, tinyWidth = 4;

/// The target of the executable.
#ifndef PSRT_TINY_TARGET
#define PSRT_TINY_TARGET "cpu"
#endif

// The formatter would cut the JSON into pieces.
// clang-format off

/// The factors of the batch dim: 8 rows, which are split over the axis dp.
#define PSRT_TINY_BATCH R"([{"size": 8, "axes": ["dp"]}])"

/// The inputs x and y of an entry. `x0` and `y0` list their addresses, one per micro-batch.
#define PSRT_TINY_INPUTS(entry, x0, y0) \
  R"({"name": "x", "dtype": "f32", "shape": [8, 4], )" \
  R"("factors": [)" PSRT_TINY_BATCH R"(, [{"size": 4}]], "batch_dim": 0, "role": "data", )" \
  R"("addresses": )" x0 R"(, "of_program": ")" entry R"("},)" \
  R"({"name": "y", "dtype": "f32", "shape": [8], )" \
  R"("factors": [)" PSRT_TINY_BATCH R"(], "batch_dim": 0, "role": "labels", )" \
  R"("addresses": )" y0 R"(, "of_program": ")" entry R"("})"

/// A variable with one element. `more` adds members to its JSON object.
#define PSRT_TINY_SCALAR(symbol, kind, partial, address, more) \
  R"({"symbol": ")" symbol R"(", "kind": ")" kind R"(", "dtype": "f32", "shape": [], )" \
  R"("partial": )" partial R"(, "address": )" address more R"(},)"

/// The instruction of a function that runs a kernel on `rows` rows, with six buffers.
#define PSRT_TINY_KERNEL(kernel, rows, grain) \
  R"({"op": "kernel", "kernel": )" kernel R"(, "rows": )" rows R"(, "grid": 1, "block": 1, )" \
  R"("grain": )" grain R"(, "args": [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [5, 0]]})"

/// The program's JSON table for a mesh of `dp` ranks, with `rows` = 8 / dp rows per rank. Both
/// arguments are string literals. Example: PSRT_TINY_TABLE("2", "4").
#define PSRT_TINY_TABLE(dp, rows) \
  R"({"version": 1, "target": ")" PSRT_TINY_TARGET R"(", "parashard": "0.1.0", )" \
  R"("model": "tiny.pt2", )" \
  R"("compile_line": "ps-compile tiny.pt2 -o tiny --mesh dp=)" dp R"(", )" \
  R"("mesh": [{"name": "dp", "kind": "data", "size": )" dp R"(}], )" \
  R"("kernels": ["forward", "update", "evaluate"], "arena_bytes": 4096, )" \
  R"("micro_batches": 2, "defaults": {"lr": 0.1}, "labels": "given", )" \
  R"("loss_average": "step", "explain": "by hand", )" \
  R"("variables": [)" \
    R"({"symbol": "w", "names": ["w", "tied"], "kind": "parameter", "dtype": "f32", )" \
      R"("shape": [4], "address": 0, "init_value": 0.5},)" \
    R"({"symbol": "w.grad", "kind": "gradient", "of": "w", "dtype": "f32", )" \
      R"("shape": [4], "partial": ["dp"], "address": 64},)" \
    PSRT_TINY_SCALAR("loss.sum", "accumulator", R"(["dp"])", "128", "") \
    PSRT_TINY_SCALAR("loss.count", "accumulator", R"(["dp"])", "192", "") \
    PSRT_TINY_SCALAR("loss", "accumulator", "[]", "256", "") \
    PSRT_TINY_SCALAR("lr", "scalar", "[]", "320", R"(, "init_value": 0.1)") \
    R"({"symbol": "offset", "names": ["offset"], "kind": "buffer", "dtype": "i64", )" \
      R"("shape": [2], "address": 576, "init_data": "BwAAAAAAAAD/////////fw=="}], )" \
  R"("inputs": [)" \
    PSRT_TINY_INPUTS("micro_batch", "[1024, 1280]", "[1536, 1792]") "," \
    PSRT_TINY_INPUTS("evaluate", "[2048]", "[2304]") R"(], )" \
  R"("functions": [)" \
    R"({"name": "m.forward", "bases": 6, "refs": 1, "keys": 0, )" \
      R"("code": [)" PSRT_TINY_KERNEL("0", rows, rows) R"(]},)" \
    R"({"name": "m.update", "bases": 6, "refs": 0, "keys": 0, )" \
      R"("code": [)" PSRT_TINY_KERNEL("1", "4", "2") R"(]},)" \
    R"({"name": "m.evaluate", "bases": 6, "refs": 0, "keys": 0, )" \
      R"("code": [)" PSRT_TINY_KERNEL("2", rows, rows) R"(]}], )" \
  R"("programs": [)" \
    R"({"name": "step", "update_from": 2, "code": [)" \
      R"({"run": 0, "bases": [1024, 1536, 0, 64, 128, 192], "micro_batch": 0, "first": [1]},)" \
      R"({"run": 0, "bases": [1280, 1792, 0, 64, 128, 192], "micro_batch": 1, "first": [0]},)" \
      R"({"op": "all_reduce", "dtype": "f32", "axes": ["dp"], "ins": [64, 128, 192], )" \
        R"("outs": [384, 448, 512], "counts": [4, 1, 1], "wait": 1}, )" \
      R"({"wait": 1},)" \
      R"({"run": 1, "bases": [0, 384, 448, 512, 256, 320]}], "outputs": []},)" \
    R"({"name": "evaluate", "code": [)" \
      R"({"run": 2, "bases": [2048, 2304, 0, 2560, 2624, 2688]}], "outputs": [)" \
      R"({"name": "loss.sum", "dtype": "f32", "shape": [], "partial": ["dp"], )" \
        R"("address": 2560},)" \
      R"({"name": "loss.count", "dtype": "f32", "shape": [], "partial": ["dp"], )" \
        R"("address": 2624},)" \
      R"({"name": "prediction", "dtype": "f32", "shape": [8], )" \
        R"("factors": [)" PSRT_TINY_BATCH R"(], "address": 2688}]}]})"

// clang-format on

extern "C" const psrt::Kernel psrt_program_kernels[];

#endif
