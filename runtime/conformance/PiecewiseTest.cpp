// Tests a program without a loss, whose sections the host calls separately: the forwards of two
// slots, then their backwards, and an update.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/session/NamedTensors.h"
#include "runtime/session/Session.h"
#include <gtest/gtest.h>

using namespace psrt;

namespace {

constexpr int64_t width = 4;

float *at(void *const *buffers, int i) { return static_cast<float *>(buffers[i]); }

/// Computes the prediction x w. The buffers are (x, w, prediction).
void forward(void *const *buffers, const int64_t *, int64_t lo, int64_t hi) {
  for (int64_t i = lo; i < hi; ++i) {
    at(buffers, 2)[i] = 0;
    for (int64_t j = 0; j < width; ++j)
      at(buffers, 2)[i] += at(buffers, 0)[i * width + j] * at(buffers, 1)[j];
  }
}

/// Sets the gradient of w, or adds to it. The buffers are (x, cotangent, grad).
void backward(void *const *buffers, const int64_t *scalars, int64_t lo, int64_t hi) {
  for (int64_t j = 0; j < width; ++j) {
    float sum = 0;
    for (int64_t i = lo; i < hi; ++i)
      sum += at(buffers, 1)[i] * at(buffers, 0)[i * width + j];
    at(buffers, 2)[j] = scalars[3] ? sum : at(buffers, 2)[j] + sum;
  }
}

/// Runs one SGD step with a learning rate of 0.1. The buffers are (w, grad).
void update(void *const *buffers, const int64_t *, int64_t lo, int64_t hi) {
  for (int64_t j = lo; j < hi; ++j)
    at(buffers, 0)[j] -= 0.1f * at(buffers, 1)[j];
}

const Kernel kernels[] = {forward, backward, update};

const char table[] =
    R"({"version": 1, "arena_bytes": 4096, "mesh": [{"name": "dp", "kind": "data", "size": 2}],
 "kernels": ["forward", "backward", "update"],
 "variables": [
  {"symbol": "w", "names": ["w"], "kind": "parameter", "dtype": "f32", "shape": [4], "address": 0, "init_value": 0.5},
  {"symbol": "w.grad", "kind": "gradient", "of": "w", "dtype": "f32", "shape": [4], "partial": ["dp"], "address": 64}],
 "inputs": [
  {"name": "x", "dtype": "f32", "shape": [8, 4], "factors": [[{"size": 8, "axes": ["dp"]}], []], "role": "data",
   "addresses": [1024], "of_program": "forward"},
  {"name": "prediction", "dtype": "f32", "shape": [8], "factors": [[{"size": 8, "axes": ["dp"]}]], "role": "cotangent",
   "addresses": [256], "of_program": "backward"}],
 "functions": [
  {"name": "f", "bases": 3, "code": [{"op": "kernel", "kernel": 0, "rows": 4, "grain": 1, "args": [[0,0],[1,0],[2,0]]}]},
  {"name": "b", "bases": 3, "refs": 1, "code": [{"op": "kernel", "kernel": 1, "rows": 4, "grain": 4, "args": [[0,0],[1,0],[2,0]]}]},
  {"name": "u", "bases": 2, "code": [{"op": "kernel", "kernel": 2, "rows": 4, "grain": 4, "args": [[0,0],[1,0]]}]}],
 "programs": [
  {"name": "forward", "slots": 2, "slot_base": 1024, "slot_bytes": 512, "code": [{"run": 0, "bases": [1024, 0, 384]}],
   "outputs": [{"name": "prediction", "dtype": "f32", "shape": [8], "factors": [[{"size": 8, "axes": ["dp"]}]], "address": 384}]},
  {"name": "backward", "slots": 2, "slot_base": 1024, "slot_bytes": 512, "code": [{"run": 1, "bases": [1024, 256, 64], "first": [1]}]},
  {"name": "update", "code": [
   {"op": "all_reduce", "dtype": "f32", "axes": ["dp"], "in": 64, "out": 512, "count": 4}, {"run": 2, "bases": [0, 512]}]}]})";

} // namespace

TEST(Piecewise, TwoForwardsBeforeTwoBackwardsAccumulate) {
  Session session({table, sizeof(table) - 1, kernels, "."}, SessionOptions());
  NamedTensors tensors(session.getProgram());
  std::vector<double> gradient(width), w(width, 0.5);
  auto run = [&](const char *name, int64_t slot, const char *input, std::vector<float> &values,
                 bool cotangent) {
    const EntryPoint &entry = session.entry(name);
    std::vector<int64_t> shape =
        cotangent ? std::vector<int64_t>{8} : std::vector<int64_t>{8, width};
    std::vector<const Input *> inputs = session.inputsOf(entry, cotangent);
    auto source = makeMemorySource(
        inputs, {{input, Dtype::F32, shape, reinterpret_cast<char *>(values.data())}}, "the test");
    session.writeInputs(entry, inputs, *source, 1, [](int64_t, int64_t row) { return row; }, slot);
    session.run(entry, slot, true);
  };
  for (int step = 0; step < 2; ++step) {
    std::fill(gradient.begin(), gradient.end(), 0);
    std::vector<float> x[2] = {randomValues(32, 10 * step), randomValues(32, 10 * step + 1)};
    std::vector<float> cotangent[2] = {randomValues(8, 10 * step + 2),
                                       randomValues(8, 10 * step + 3)};
    for (int slot : {0, 1})
      run("forward", slot, "x", x[slot], false);
    for (int slot : {1, 0}) {
      run("backward", slot, "prediction", cotangent[slot], true);
      for (int64_t i = 0; i < 8; ++i)
        for (int64_t j = 0; j < width; ++j)
          gradient[j] += cotangent[slot][i] * x[slot][i * width + j];
    }
    session.run(session.entry("update"), 0, true);
    std::vector<float> found(width);
    readTensor(session, tensors.get("grad.w"), reinterpret_cast<char *>(found.data()));
    for (int64_t j = 0; j < width; ++j)
      EXPECT_NEAR(found[j], gradient[j], 1e-5);
    readTensor(session, tensors.get("w"), reinterpret_cast<char *>(found.data()));
    for (int64_t j = 0; j < width; ++j)
      EXPECT_NEAR(found[j], w[j] -= 0.1 * gradient[j], 1e-5);
    session.zero(VariableKind::Gradient);
  }
}
