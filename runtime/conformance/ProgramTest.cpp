// Compares the hand-written program on 1, 2 and 4 ranks with plain loops, and tests the C API.
#include "psrt/psrt.h"
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/conformance/Environment.h"
#include "runtime/conformance/TinyProgram.h"
#include "runtime/session/NamedTensors.h"
#include <gtest/gtest.h>
#include <thread>

using namespace psrt;

/// Counts the allocations of this process, to check that a step makes none.
static std::atomic<int64_t> allocations{0};
void *operator new(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

const char table1[] = PSRT_TINY_TABLE("1", "8");
const char table2[] = PSRT_TINY_TABLE("2", "4");
const char table4[] = PSRT_TINY_TABLE("4", "2");

ProgramSource sourceFor(int ranks) {
  std::string_view table = ranks == 1 ? table1 : ranks == 2 ? table2 : table4;
  return {table.data(), table.size(), psrt_program_kernels, "."};
}

/// The data of a step: 16 rows, in two micro-batches.
struct Data {
  std::vector<float> x = randomValues(16 * tinyWidth, 1), y = randomValues(16, 2);
  std::unique_ptr<SampleSource> source(const std::vector<const Input *> &inputs,
                                       int64_t rows = 16) {
    return makeMemorySource(
        inputs,
        {{"x", Dtype::F32, {rows, tinyWidth}, reinterpret_cast<char *>(x.data())},
         {"y", Dtype::F32, {rows}, reinterpret_cast<char *>(y.data())}},
        "the test");
  }
};

/// Runs one SGD step in f64. Returns the loss before the update.
double plainStep(const Data &data, std::vector<double> &w,
                 std::vector<double> *gradient = nullptr) {
  std::vector<double> grad(tinyWidth);
  double sum = 0;
  for (int64_t i = 0; i < 16; ++i) {
    double difference = -data.y[i];
    for (int64_t j = 0; j < tinyWidth; ++j)
      difference += w[j] * data.x[i * tinyWidth + j];
    for (int64_t j = 0; j < tinyWidth; ++j)
      grad[j] += 2 * difference * data.x[i * tinyWidth + j] / 16;
    sum += difference * difference;
  }
  for (int64_t j = 0; j < tinyWidth; ++j)
    w[j] -= 0.1 * grad[j];
  if (gradient)
    *gradient = grad;
  return sum / 16;
}

} // namespace

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, TrainsAsPlainLoopsDo) {
  SessionOptions options;
  options.ranks = GetParam();
  Session session(sourceFor(GetParam()), options);
  Data data;
  const EntryPoint &entry = session.entry("step");
  auto source = data.source(session.inputsOf(entry));
  std::vector<double> w(tinyWidth, 0.5), gradient;
  for (int step = 0; step < 5; ++step) {
    session.writeInputs(entry, *source, 2, [](int64_t m, int64_t row) { return m * 8 + row; });
    session.run(entry, 0, false, Extent::BeforeUpdate);
    NamedTensors tensors(session.getProgram());
    std::vector<float> found(tinyWidth);
    readTensor(session, tensors.get("grad.tied"), reinterpret_cast<char *>(found.data()));
    session.run(entry, 0, false, Extent::Update);
    double loss = plainStep(data, w, &gradient);
    EXPECT_NEAR(session.readScalar("loss"), loss, 1e-5);
    for (int64_t j = 0; j < tinyWidth; ++j)
      EXPECT_NEAR(found[j] / 16, gradient[j], 1e-5);
    readTensor(session, tensors.get("w"), reinterpret_cast<char *>(found.data()));
    for (int64_t j = 0; j < tinyWidth; ++j)
      EXPECT_NEAR(found[j], w[j], 1e-5);
  }
}

TEST_P(Ranks, EvaluationGivesOutputsWhole) {
  SessionOptions options;
  Session session(sourceFor(GetParam()), options);
  Data data;
  const EntryPoint &entry = session.entry("evaluate");
  auto source = data.source(session.inputsOf(entry), 8);
  session.writeInputs(entry, *source, 1, [](int64_t, int64_t row) { return row; });
  session.run(entry);
  std::vector<float> prediction(8);
  session.gather(entry.outputs[2], reinterpret_cast<char *>(prediction.data()));
  for (int64_t i = 0; i < 8; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < tinyWidth; ++j)
      sum += 0.5 * data.x[i * tinyWidth + j];
    EXPECT_NEAR(prediction[i], sum, 1e-5);
  }
}

TEST_P(Ranks, AStepAllocatesNothing) {
  Session session(sourceFor(GetParam()), SessionOptions());
  Data data;
  const EntryPoint &entry = session.entry("step");
  auto source = data.source(session.inputsOf(entry));
  int64_t before = 0;
  for (int step = 0; step < 10; ++step) {
    if (step == 2)
      before = allocations;
    session.writeInputs(entry, *source, 2, [](int64_t m, int64_t row) { return m * 8 + row; });
    session.run(entry);
    session.readScalar("loss");
  }
  EXPECT_EQ(allocations, before);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Ranks, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

TEST(Session, AWrongNumberOfRanksShowsTheCompileLine) {
  SessionOptions options;
  options.ranks = 4;
  try {
    Session session(sourceFor(2), options);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(int(error.status.code), 2);
    EXPECT_NE(error.status.message.find("ps-compile tiny.pt2 -o tiny --mesh dp=4"),
              std::string::npos)
        << error.what();
  }
}

TEST(Program, InputsOfAStepWithUnequalSamplesAreRefused) {
  std::string table = table1;
  size_t y = table.find("\"name\": \"y\"");
  for (std::string size : {"\"shape\": [8]", "\"size\": 8"})
    table[table.find(size, y) + size.find('8')] = '6';
  try {
    parseProgram(table);
    FAIL();
  } catch (const Error &error) {
    EXPECT_NE(
        error.status.message.find("input \"x\" has 8 samples and input \"y\" has 6 in one step"),
        std::string::npos)
        << error.what();
  }
}

/// Runs a step on rank 0. Rank 1 first calls `other`, and runs the step only if `other` returns
/// true.
static void runStep(const std::function<bool()> &other) {
  Environment timeout("PSRT_TIMEOUT", "1");
  SessionOptions options;
  options.watch = true;
  options.threads = 1;
  Session session(sourceFor(2), options);
  session.prepare(EntryKind::Step);
  const EntryPoint &entry = session.entry("step");
  session.parallel([&](Rank &rank) {
    if (rank.index == 0 || other())
      rank.executor->run(rank.executor->bind(entry, 0, false), 0);
  });
}

TEST(DeadlockMonitor, EndsRanksThatWaitForAFinishedRank) {
  try {
    runStep([] { return false; });
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(int(error.status.code), 3);
    std::string message = error.what();
    EXPECT_NE(message.find("all ranks have waited for each other for 1 s (PSRT_TIMEOUT)"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("rank 0 waits for rank 1 in all_reduce over dp"), std::string::npos)
        << message;
    EXPECT_NE(message.find("rank 1 is running no instruction"), std::string::npos) << message;
  }
}

TEST(DeadlockMonitor, WaitsForARankThatTakesLonger) {
  EXPECT_NO_THROW(runStep([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1600));
    return true;
  }));
}

TEST(CApi, TwoProgramsInterleaved) {
  psrt_program *a = nullptr, *b = nullptr;
  psrt_options options = {sizeof(psrt_options), 2, 1, 0, nullptr, nullptr};
  ASSERT_EQ(psrt_open(nullptr, &options, &a), PSRT_OK) << psrt_last_error(a);
  ASSERT_EQ(psrt_open(nullptr, &options, &b), PSRT_OK);
  Data data;
  int64_t xShape[] = {16, tinyWidth}, yShape[] = {16}, wShape[] = {tinyWidth};
  psrt_tensor inputs[] = {{"x", data.x.data(), PSRT_F32, 2, xShape},
                          {"y", data.y.data(), PSRT_F32, 1, yShape}};
  ASSERT_EQ(psrt_set_scalar(b, "lr", 0), PSRT_OK);
  std::vector<double> w(tinyWidth, 0.5);
  float loss = 0, first = 0;
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(psrt_step(a, inputs, 2, &loss), PSRT_OK) << psrt_last_error(a);
    EXPECT_NEAR(loss, plainStep(data, w), 1e-5);
    ASSERT_EQ(psrt_step(b, inputs, 2, &loss), PSRT_OK);
    first = step ? first : loss;
    EXPECT_EQ(loss, first);
  }
  float found[tinyWidth];
  psrt_tensor variable = {"tied", found, PSRT_F32, 1, wShape};
  ASSERT_EQ(psrt_get_variable(a, &variable), PSRT_OK);
  EXPECT_NEAR(found[1], w[1], 1e-5);
  found[1] = 7;
  ASSERT_EQ(psrt_set_variable(a, &variable), PSRT_OK);
  found[1] = 0;
  ASSERT_EQ(psrt_get_variable(a, &variable), PSRT_OK);
  EXPECT_EQ(found[1], 7);
  int64_t buffer[2] = {}, bufferShape[] = {2};
  psrt_tensor offset = {"offset", buffer, PSRT_I64, 1, bufferShape};
  ASSERT_EQ(psrt_get_variable(a, &offset), PSRT_OK);
  EXPECT_EQ(buffer[0], 7);
  EXPECT_EQ(buffer[1], INT64_MAX);
  psrt_close(a);
  psrt_close(b);
}

TEST(CApi, StepInTwoHalves) {
  psrt_program *program = nullptr;
  ASSERT_EQ(psrt_open(nullptr, nullptr, &program), PSRT_OK) << psrt_last_error(program);
  EXPECT_EQ(psrt_update(program), PSRT_BAD_ARGUMENT); // no step has begun
  Data data;
  int64_t xShape[] = {16, tinyWidth}, yShape[] = {16}, wShape[] = {tinyWidth};
  psrt_tensor inputs[] = {{"x", data.x.data(), PSRT_F32, 2, xShape},
                          {"y", data.y.data(), PSRT_F32, 1, yShape}};
  std::vector<double> w(tinyWidth, 0.5);
  float loss = 0, found[tinyWidth];
  double divisor = 0;
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(psrt_begin_step(program, inputs, 2, &loss, &divisor), PSRT_OK)
        << psrt_last_error(program);
    ASSERT_EQ(psrt_begin_step(program, inputs, 2, &loss, &divisor), PSRT_OK); // overwrites
    EXPECT_NEAR(loss, plainStep(data, w), 1e-5);
    EXPECT_EQ(divisor, 16);
    ASSERT_EQ(psrt_update(program), PSRT_OK) << psrt_last_error(program);
    EXPECT_EQ(psrt_update(program), PSRT_BAD_ARGUMENT);
  }
  psrt_tensor variable = {"tied", found, PSRT_F32, 1, wShape};
  ASSERT_EQ(psrt_get_variable(program, &variable), PSRT_OK);
  for (int i = 0; i < tinyWidth; ++i)
    EXPECT_NEAR(found[i], w[i], 1e-5);
  int64_t step = 0;
  ASSERT_EQ(psrt_get_step(program, &step), PSRT_OK);
  EXPECT_EQ(step, 3);
  psrt_close(program);
}

TEST(CApi, OneOfSeveralProcessesIsRefused) {
  Environment size("WORLD_SIZE", "4"), rank("RANK", "1");
  psrt_program *program = nullptr;
  EXPECT_EQ(psrt_open(nullptr, nullptr, &program), PSRT_BAD_ARGUMENT);
  EXPECT_NE(std::string(psrt_last_error(program)).find("is one of 4 (WORLD_SIZE)"),
            std::string::npos)
      << psrt_last_error(program);
  psrt_close(program);
}

TEST(CApi, WrongTensorsAreRefusedWithWhatIsExpected) {
  psrt_program *program = nullptr;
  ASSERT_EQ(psrt_open(nullptr, nullptr, &program), PSRT_OK);
  Data data;
  int64_t xShape[] = {16, 3}, yShape[] = {16};
  psrt_tensor inputs[] = {{"x", data.x.data(), PSRT_F32, 2, xShape},
                          {"y", data.y.data(), PSRT_F32, 1, yShape}};
  EXPECT_EQ(psrt_step(program, inputs, 2, nullptr), PSRT_BAD_INPUT);
  EXPECT_NE(std::string(psrt_last_error(program))
                .find("has shape [16, 3], but the model's input has [8, 4]"),
            std::string::npos)
      << psrt_last_error(program);
  inputs[0].name = "z";
  EXPECT_EQ(psrt_step(program, inputs, 2, nullptr), PSRT_BAD_ARGUMENT);
  xShape[1] = 4;
  inputs[0].name = "x";
  EXPECT_EQ(psrt_step(program, inputs, 2, nullptr), PSRT_OK)
      << psrt_last_error(program); // the program can still be used after the errors
  EXPECT_EQ(psrt_backward(program, 0, nullptr, 0), PSRT_BAD_ARGUMENT);
  psrt_close(program);
  psrt_program *missing = nullptr;
  EXPECT_EQ(psrt_open("/nowhere.so", nullptr, &missing), PSRT_BAD_INPUT);
  EXPECT_NE(std::string(psrt_last_error(missing)).find("cannot load"), std::string::npos);
  psrt_close(missing);
}
