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

/// PSRT_TINY_TABLE(dp, rows) is the program's JSON table for a mesh of dp ranks with `rows` = 8 /
/// dp rows each. Both arguments are string literals.
#define PSRT_TINY_BATCH(dp) "{\"size\": 8, \"axes\": [\"dp\"]}"
#define PSRT_TINY_INPUTS(entry, x0, y0)                                                            \
  "{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [8, 4], \"factors\": [[" PSRT_TINY_BATCH(      \
      dp) "], [{\"size\": 4}]], \"batch_dim\": 0, \"role\": \"data\", \"addresses\": " x0          \
          ", \"of_program\": \"" entry "\"},"                                                      \
          "{\"name\": \"y\", \"dtype\": \"f32\", \"shape\": [8], \"factors\": [[" PSRT_TINY_BATCH( \
              dp) "]], \"batch_dim\": 0, \"role\": \"labels\", \"addresses\": " y0                 \
                  ", \"of_program\": \"" entry "\"}"
#define PSRT_TINY_SCALAR(symbol, kind, partial, address, more)                                     \
  "{\"symbol\": \"" symbol "\", \"kind\": \"" kind                                                 \
  "\", \"dtype\": \"f32\", \"shape\": [], \"partial\": " partial ", \"address\": " address more    \
  "},"
#define PSRT_TINY_TABLE(dp, rows)                                                                          \
  "{\"version\": 1, \"target\": \"" PSRT_TINY_TARGET                                                       \
  "\", \"parashard\": \"0.1.0\", \"model\": \"tiny.pt2\","                                                 \
  " \"compile_line\": \"ps-compile tiny.pt2 -o tiny --mesh dp=" dp "\","                                   \
  " \"mesh\": [{\"name\": \"dp\", \"kind\": \"data\", \"size\": " dp "}],"                                 \
  " \"kernels\": [\"forward\", \"update\", \"evaluate\"], \"arena_bytes\": 4096,"                          \
  " \"micro_batches\": 2, \"defaults\": {\"lr\": 0.1}, \"labels\": \"given\","                             \
  " \"loss_average\": \"step\", \"explain\": \"by hand\","                                                 \
  " \"variables\": ["                                                                                      \
  "{\"symbol\": \"w\", \"names\": [\"w\", \"tied\"], \"kind\": \"parameter\", \"dtype\": \"f32\","         \
  " \"shape\": [4], \"address\": 0, \"init_value\": 0.5},"                                                 \
  "{\"symbol\": \"w.grad\", \"kind\": \"gradient\", \"of\": \"w\", \"dtype\": \"f32\","                    \
  " \"shape\": [4], \"partial\": [\"dp\"], \"address\": 64}," PSRT_TINY_SCALAR(                            \
      "loss.sum", "accumulator", "[\"dp\"]", "128",                                                        \
      "") PSRT_TINY_SCALAR("loss.count", "accumulator", "[\"dp\"]", "192", "")                             \
      PSRT_TINY_SCALAR("loss", "accumulator", "[]", "256", "") PSRT_TINY_SCALAR(                           \
          "lr", "scalar", "[]", "320",                                                                     \
          ", \"init_value\": 0.1") "{\"symbol\": \"offset\", \"names\": [\"offset\"], \"kind\": "          \
                                   "\"buffer\", \"dtype\": \"i64\","                                       \
                                   " \"shape\": [2], \"address\": 576, \"init_data\": "                    \
                                   "\"BwAAAAAAAAD/////////fw==\"}],"                                       \
                                   " \"inputs\": [" PSRT_TINY_INPUTS(                                      \
                                       "micro_batch", "[1024, 1280]",                                      \
                                       "[1536, 1792]") "," PSRT_TINY_INPUTS("evaluate", "[2048]",          \
                                                                            "[2304]") "],"                 \
                                                                                      " \"functio"         \
                                                                                      "ns\": ["            \
                                                                                      "{\"name\":"         \
                                                                                      " \"m."              \
                                                                                      "forward\","         \
                                                                                      " \"bases\""         \
                                                                                      ": 6, "              \
                                                                                      "\"refs\": "         \
                                                                                      "1, "                \
                                                                                      "\"keys\": "         \
                                                                                      "0, "                \
                                                                                      "\"code\": "         \
                                                                                      "[{\"op\":"          \
                                                                                      " \"kernel"          \
                                                                                      "\", "               \
                                                                                      "\"kernel\""         \
                                                                                      ": 0, "              \
                                                                                      "\"rows\":"          \
                                                                                      " " rows             \
                                                                                      ", "                 \
                                                                                      "\"grid\": "         \
                                                                                      "1, "                \
                                                                                      "\"block\":"         \
                                                                                      " 1, "               \
                                                                                      "\"grain\":"         \
                                                                                      " " rows             \
                                                                                      ", "                 \
                                                                                      "\"args\": "         \
                                                                                      "[[0, 0], "          \
                                                                                      "[1, 0], "           \
                                                                                      "[2, 0], "           \
                                                                                      "[3, 0], "           \
                                                                                      "[4, 0], "           \
                                                                                      "[5, "               \
                                                                                      "0]]}]},"            \
                                                                                      "{\"name\":"         \
                                                                                      " \"m."              \
                                                                                      "update\", "         \
                                                                                      "\"bases\":"         \
                                                                                      " 6, "               \
                                                                                      "\"refs\": "         \
                                                                                      "0, "                \
                                                                                      "\"keys\": "         \
                                                                                      "0, "                \
                                                                                      "\"code\": "         \
                                                                                      "[{\"op\":"          \
                                                                                      " \"kernel"          \
                                                                                      "\", "               \
                                                                                      "\"kernel\""         \
                                                                                      ": 1, "              \
                                                                                      "\"rows\": "         \
                                                                                      "4, "                \
                                                                                      "\"grid\": "         \
                                                                                      "1, "                \
                                                                                      "\"block\":"         \
                                                                                      " 1, "               \
                                                                                      "\"grain\":"         \
                                                                                      " 2,"                \
                                                                                      " \"args\":"         \
                                                                                      " [[0, 0], "         \
                                                                                      "[1, 0], "           \
                                                                                      "[2, 0], "           \
                                                                                      "[3, 0], "           \
                                                                                      "[4, 0], "           \
                                                                                      "[5, "               \
                                                                                      "0]]}]},"            \
                                                                                      "{\"name\":"         \
                                                                                      " \"m."              \
                                                                                      "evaluate\""         \
                                                                                      ", "                 \
                                                                                      "\"bases\":"         \
                                                                                      " 6, "               \
                                                                                      "\"refs\": "         \
                                                                                      "0, "                \
                                                                                      "\"keys\": "         \
                                                                                      "0, "                \
                                                                                      "\"code\": "         \
                                                                                      "[{\"op\":"          \
                                                                                      " \"kernel"          \
                                                                                      "\", "               \
                                                                                      "\"kernel\""         \
                                                                                      ": 2, "              \
                                                                                      "\"rows\":"          \
                                                                                      " " rows             \
                                                                                      ", "                 \
                                                                                      "\"grid\": "         \
                                                                                      "1, "                \
                                                                                      "\"block\":"         \
                                                                                      " 1, "               \
                                                                                      "\"grain\":"         \
                                                                                      " " rows             \
                                                                                      ", "                 \
                                                                                      "\"args\": "         \
                                                                                      "[[0, 0], "          \
                                                                                      "[1, 0], "           \
                                                                                      "[2, 0], "           \
                                                                                      "[3, 0], "           \
                                                                                      "[4, 0], "           \
                                                                                      "[5, "               \
                                                                                      "0]]}]}],"           \
                                                                                      " \"program"         \
                                                                                      "s\": ["             \
                                                                                      "{\"name\":"         \
                                                                                      " \"step\","         \
                                                                                      " \"update_"         \
                                                                                      "from\": "           \
                                                                                      "2, "                \
                                                                                      "\"code\": "         \
                                                                                      "["                  \
                                                                                      "{\"run\": "         \
                                                                                      "0, "                \
                                                                                      "\"bases\":"         \
                                                                                      " [1024, "           \
                                                                                      "1536, 0, "          \
                                                                                      "64, 128, "          \
                                                                                      "192], "             \
                                                                                      "\"micro_"           \
                                                                                      "batch\": "          \
                                                                                      "0, "                \
                                                                                      "\"first\":"         \
                                                                                      " [1]},"             \
                                                                                      "{\"run\": "         \
                                                                                      "0, "                \
                                                                                      "\"bases\":"         \
                                                                                      " [1280, "           \
                                                                                      "1792, 0, "          \
                                                                                      "64, 128, "          \
                                                                                      "192], "             \
                                                                                      "\"micro_"           \
                                                                                      "batch\": "          \
                                                                                      "1, "                \
                                                                                      "\"first\":"         \
                                                                                      " [0]},"             \
                                                                                      "{\"op\": "          \
                                                                                      "\"all_"             \
                                                                                      "reduce\", "         \
                                                                                      "\"dtype\":"         \
                                                                                      " \"f32\", "         \
                                                                                      "\"axes\": "         \
                                                                                      "[\"dp\"], "         \
                                                                                      "\"ins\": "          \
                                                                                      "[64, 128, "         \
                                                                                      "192],"              \
                                                                                      " \"outs\":"         \
                                                                                      " [384, "            \
                                                                                      "448, "              \
                                                                                      "512], "             \
                                                                                      "\"counts\""         \
                                                                                      ": [4, 1, "          \
                                                                                      "1], "               \
                                                                                      "\"wait\": "         \
                                                                                      "1}, "               \
                                                                                      "{\"wait\":"         \
                                                                                      " 1},"               \
                                                                                      "{\"run\": "         \
                                                                                      "1, "                \
                                                                                      "\"bases\":"         \
                                                                                      " [0, 384, "         \
                                                                                      "448, 512, "         \
                                                                                      "256, "              \
                                                                                      "320]}], "           \
                                                                                      "\"outputs"          \
                                                                                      "\": []},"           \
                                                                                      "{\"name\":"         \
                                                                                      " \"evaluat"         \
                                                                                      "e\", "              \
                                                                                      "\"code\": "         \
                                                                                      "["                  \
                                                                                      "{\"run\": "         \
                                                                                      "2, "                \
                                                                                      "\"bases\":"         \
                                                                                      " [2048, "           \
                                                                                      "2304, 0, "          \
                                                                                      "2560, "             \
                                                                                      "2624, "             \
                                                                                      "2688]}], "          \
                                                                                      "\"outputs"          \
                                                                                      "\": ["              \
                                                                                      "{\"name\":"         \
                                                                                      " \"loss."           \
                                                                                      "sum\", "            \
                                                                                      "\"dtype\":"         \
                                                                                      " \"f32\", "         \
                                                                                      "\"shape\":"         \
                                                                                      " [], "              \
                                                                                      "\"partial"          \
                                                                                      "\": "               \
                                                                                      "[\"dp\"],"          \
                                                                                      " \"address"         \
                                                                                      "\": 2560},"         \
                                                                                      "{\"name\":"         \
                                                                                      " \"loss."           \
                                                                                      "count\", "          \
                                                                                      "\"dtype\":"         \
                                                                                      " \"f32\", "         \
                                                                                      "\"shape\":"         \
                                                                                      " [], "              \
                                                                                      "\"partial"          \
                                                                                      "\": "               \
                                                                                      "[\"dp\"],"          \
                                                                                      " \"address"         \
                                                                                      "\": 2624},"         \
                                                                                      "{\"name\":"         \
                                                                                      " \"predict"         \
                                                                                      "ion\", "            \
                                                                                      "\"dtype\":"         \
                                                                                      " \"f32\", "         \
                                                                                      "\"shape\":"         \
                                                                                      " [8], "             \
                                                                                      "\"factors"          \
                                                                                      "\": "               \
                                                                                      "["                  \
                                                                                      "[" PSRT_TINY_BATCH( \
                                                                                          dp) "]]"         \
                                                                                              ", "         \
                                                                                              "\""         \
                                                                                              "ad"         \
                                                                                              "dr"         \
                                                                                              "es"         \
                                                                                              "s"          \
                                                                                              "\""         \
                                                                                              ": "         \
                                                                                              "26"         \
                                                                                              "88"         \
                                                                                              "}]"         \
                                                                                              "}]"         \
                                                                                              "}"

extern "C" const psrt::Kernel psrt_program_kernels[];

#endif
