// Trains a compiled program from C: two steps of an MLP on data in memory, then reads a weight.
// Built and run by test/python/test_capi.py; docs/c-api.md explains it.
//
//   cmake --build --preset release --target psrt_shared
//   ps-compile mlp.pt2 -o mlp.so --mesh dp=2 --optimizer "sgd(lr=0.1)"
//   cc -Iinclude examples/c-api/finetune.c -o finetune -Lbuild/release/lib -lpsrt -Wl,-rpath,build/release/lib
//   ./finetune mlp.so
#include <psrt/psrt.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBatch = 8, kFeatures = 12 };

static void check(psrt_program *program, psrt_status status, const char *what) {
  if (status == PSRT_OK)
    return;
  fprintf(stderr, "%s: %s\n", what, psrt_last_error(program));
  psrt_close(program);
  exit(status);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s PROGRAM.so\n", argv[0]);
    return 2;
  }
  psrt_program *program = NULL;
  psrt_options options = {.size = sizeof(options), .seed = 1};
  check(program, psrt_open(argv[1], &options, &program), "open");

  for (size_t i = 0; psrt_name(program, "inputs", i); ++i) {
    psrt_dtype dtype;
    int64_t shape[8];
    int32_t rank = 8;
    const char *name = psrt_name(program, "inputs", i);
    check(program, psrt_describe(program, "inputs", name, &dtype, &rank, shape), "describe");
    printf("input %s: %d dims, %lld samples\n", name, rank, (long long)shape[0]);
  }

  // The inputs have the rows of all micro-batches. This program owns their memory.
  float x[kBatch * kFeatures];
  int64_t labels[kBatch];
  for (int i = 0; i < kBatch * kFeatures; ++i)
    x[i] = (float)(i % 7) / 7;
  for (int i = 0; i < kBatch; ++i)
    labels[i] = i % 10;
  int64_t xShape[] = {kBatch, kFeatures}, labelsShape[] = {kBatch};
  psrt_tensor inputs[] = {{"x", x, PSRT_F32, 2, xShape}, {"labels", labels, PSRT_I64, 1, labelsShape}};
  for (int step = 0; step < 2; ++step) {
    float loss = 0;
    check(program, psrt_step(program, inputs, 2, &loss), "step");
    printf("step %d: loss %.6f\n", step, loss);
  }

  // Reads the whole weight, even if each rank has only a part of it.
  float bias[10];
  int64_t biasShape[] = {10};
  psrt_tensor tensor = {"layers.4.bias", bias, PSRT_F32, 1, biasShape};
  check(program, psrt_get_variable(program, &tensor), "get");
  printf("layers.4.bias[0] %.6f\n", bias[0]);
  psrt_close(program);
  return 0;
}
