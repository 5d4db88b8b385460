// Tests the CUDA device on the fake driver: memory, a whole program, and errors.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/conformance/Environment.h"
#include "runtime/conformance/TinyProgram.h"
#include "runtime/core/MemoryPieces.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/session/Session.h"
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace psrt;

namespace {

void replaceAll(std::string &text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string makeTable(const std::string &target) {
  std::string table = PSRT_TINY_TABLE("1", "8");
  replaceAll(table, "\"target\": \"cpu\"", "\"target\": \"" + target + "\"");
  return table;
}

std::string readImage() {
  std::ifstream file(PSRT_TINY_REPLAY, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The results of a few training steps and an evaluation.
struct Outcome {
  std::vector<float> w = std::vector<float>(tinyWidth), prediction = std::vector<float>(tinyRows);
  std::vector<double> losses;
  std::vector<TraceEvent> trace;
  size_t graphs = 0;
};

Outcome train(const std::string &target, bool traced = false) {
  std::string table = makeTable(target), image = readImage();
  ProgramSource source{table.data(), table.size(), psrt_program_kernels,
                       ".",          image.data(), image.size()};
  Session session(source, {});
  if (traced)
    session.rank(0)->executor->startTrace(1000);
  std::vector<float> x = randomValues(16 * tinyWidth, 1), y = randomValues(16, 2);
  auto makeSource = [&](const EntryPoint &entry) {
    return makeMemorySource(session.inputsOf(entry),
                            {{"x", Dtype::F32, {16, tinyWidth}, reinterpret_cast<char *>(x.data())},
                             {"y", Dtype::F32, {16}, reinterpret_cast<char *>(y.data())}},
                            "the test");
  };
  const EntryPoint &step = session.entry("step"), &evaluate = session.entry("evaluate");
  auto rowOf = [](int64_t m, int64_t row) { return m * 8 + row; };
  Outcome result;
  for (session.step = 0; session.step < 5; ++session.step) {
    session.setScalar("lr", 0.1 / double(1 + session.step));
    session.writeInputs(step, *makeSource(step), 2, rowOf);
    session.run(step);
    result.losses.push_back(session.readScalar("loss"));
  }
  session.writeInputs(evaluate, *makeSource(evaluate), 1, rowOf);
  session.run(evaluate);
  session.gather(evaluate.outputs.back(), reinterpret_cast<char *>(result.prediction.data()));
  session.readVariable(0, reinterpret_cast<char *>(result.w.data()));
  result.trace = session.rank(0)->executor->trace();
  if (auto *device = dynamic_cast<cuda::CudaRank *>(session.rank(0)->device.get()))
    result.graphs = device->getRecordings().count();
  return result;
}

std::string errorOf(const std::string &target) {
  try {
    train(target);
  } catch (const Error &error) {
    EXPECT_EQ(int(error.status.code), 3);
    return error.what();
  }
  return "no error";
}

class Cuda : public testing::Test {
protected:
  void SetUp() override {
    const char *driver = std::getenv("PSRT_CUDA_DRIVER");
    if (!driver || !*driver)
      GTEST_SKIP() << "PSRT_CUDA_DRIVER is not set to a fake driver";
  }
};

} // namespace

TEST_F(Cuda, AProgramHasTheResultsOfTheCpu) {
  Outcome cpu = train("cpu");
  for (const char *graphs : {"1", "0"}) {
    Environment environment("PSRT_CUDA_GRAPHS", graphs);
    Outcome cuda = train("cuda:replay");
    EXPECT_EQ(cuda.losses, cpu.losses);
    EXPECT_EQ(cuda.w, cpu.w);
    EXPECT_EQ(cuda.prediction, cpu.prediction);
    EXPECT_EQ(cuda.graphs,
              size_t(*graphs - '0')); // only the step has a graph, as the evaluation ran only once
  }
}

/// The fake driver delays each operation by up to 20 ms. If a run waited for its operations, the
/// stream would be idle when the run returns.
TEST_F(Cuda, AStepOnlyEnqueues) {
  Environment environment("PSRT_FAKE_DELAY", "20000");
  std::string table = makeTable("cuda:replay"), image = readImage();
  Session session(
      {table.data(), table.size(), psrt_program_kernels, ".", image.data(), image.size()}, {});
  const auto &device = dynamic_cast<const cuda::CudaRank &>(*session.rank(0)->device);
  for (int run = 0; run < 4; ++run) { // direct run, captured run, two runs of the graph
    session.run(session.entry("step"));
    EXPECT_EQ(device.getDriver().streamQuery(device.getStream()->get()),
              cuda::CUDA_ERROR_NOT_READY);
    EXPECT_EQ(session.readScalar("loss.count"), 16);
  }
}

TEST_F(Cuda, TracesHaveTheTimesOfTheStream) {
  Outcome traced = train("cuda:replay", true);
  EXPECT_EQ(traced.losses, train("cpu").losses);
  EXPECT_EQ(traced.graphs, 0u);
  ASSERT_FALSE(traced.trace.empty());
  double before = 0;
  for (const TraceEvent &event : traced.trace) {
    EXPECT_GE(event.start, before - 1e-6);
    EXPECT_GE(event.end, event.start);
    before = event.end;
  }
}

TEST_F(Cuda, MemoryIsReadAndWrittenInPieces) {
  DeviceFixture fixture(1, "cuda:replay");
  constexpr int64_t count = 5 << 20; // 20 MiB of 4-byte elements, in more than four pieces
  auto memory = fixture.getRank().makeMemory(2 * count * 4);
  EXPECT_EQ(memory->host(0), nullptr);
  std::vector<int32_t> found(count, -1), want(count);
  memory->read(64, found.data(), count * 4);
  EXPECT_EQ(found, want); // new memory contains zeros
  PieceWriter writer(*memory, 64, count * 4);
  for (int64_t i = 0; i < count; i += 3) { // every third element stays 0
    int64_t n = std::min<int64_t>(2, count - i);
    writer.write(i, n, 4, [&](char *to, int64_t first, int64_t some) {
      for (int64_t j = 0; j < some; ++j) {
        int32_t value = want[i + first + j] = int32_t(i + first + j + 1);
        std::memcpy(to + j * 4, &value, 4);
      }
    });
  }
  writer.finish();
  PieceReader reader(*memory, 64, count * 4);
  reader.read(0, count, 4, [&](const char *from, int64_t first, int64_t some) {
    std::memcpy(found.data() + first, from, some * 4);
  });
  EXPECT_EQ(found, want);
  exchange(*memory, 64, 64 + count * 4, count * 4);
  memory->read(64 + count * 4, found.data(), count * 4);
  EXPECT_EQ(found, want);
}

TEST_F(Cuda, AReadSeesTheValueAtItsStart) {
  Environment environment("PSRT_FAKE_DELAY", "2000");
  DeviceFixture fixture(1, "cuda:replay");
  auto memory = fixture.getRank().makeMemory(64);
  int32_t first = 0, second = 0;
  for (int32_t value : {7, 8}) {
    memory->write(16, &value, 4);
    memory->startRead(16, value == 7 ? &first : &second, 4);
  }
  memory->zero(16, 4);
  memory->finishRead(&second);
  memory->finishRead(&first);
  EXPECT_EQ(first, 7);
  EXPECT_EQ(second, 8);
}

/// Calls commitAhead() for two values and reads each value. The fake driver ignores wait number
/// `dropped` ("0": none). Returns the values read.
static std::vector<int32_t> bringAhead(const char *dropped) {
  Environment delay("PSRT_FAKE_DELAY", "2000"), drop("PSRT_FAKE_DROP", dropped);
  DeviceFixture fixture(1, "cuda:replay");
  auto memory = fixture.getRank().makeMemory(64);
  std::vector<int32_t> found(2);
  for (int32_t i : {0, 1}) {
    char *staged = memory->stage(16, 4);
    int32_t value = 5 + i;
    std::memcpy(staged, &value, 4);
    memory->commitAhead(staged, 16, 4);
    memory->startRead(16, &found[i], 4);
  }
  for (int32_t &value : found)
    memory->finishRead(&value);
  return found;
}

/// commitAhead() copies a value to a second buffer, in another stream. The rank's stream must wait
/// for this copy. The next copy to the second buffer must wait until the value has been copied out.
TEST_F(Cuda, CommitsAheadAreInOrder) {
  EXPECT_EQ(bringAhead("0"), (std::vector{5, 6}));
  for (const char *wait : {"1", "2", "3"})
    EXPECT_THROW(bringAhead(wait), Error) << wait;
}

TEST_F(Cuda, RunsWithoutGraphsIfTheyAreNotSupported) {
  Environment environment("PSRT_FAKE_GRAPHS", "0");
  testing::internal::CaptureStderr();
  Outcome cuda = train("cuda:replay");
  std::string output = testing::internal::GetCapturedStderr();
  EXPECT_EQ(output.rfind("note: a step runs instruction by instruction", 0), 0u) << output;
  EXPECT_EQ(output.find('\n'), output.size() - 1); // the note is printed once, not at each step
  EXPECT_EQ(cuda.graphs, 0u);
  EXPECT_EQ(cuda.losses, train("cpu").losses);
}

TEST_F(Cuda, ReportsOldDriversAndGpus) {
  {
    Environment environment("PSRT_FAKE_VERSION", "11080");
    EXPECT_EQ(errorOf("cuda:replay"), "this machine's CUDA driver is for CUDA 11.8, but the "
                                      "program needs 12.0; install a newer driver, or compile with "
                                      "--target cpu");
  }
  Environment environment("PSRT_FAKE_CAPABILITY", "8.0");
  std::string error = errorOf("cuda:sm_90");
  EXPECT_NE(error.find("compiled for sm_90, but GPU 0"), std::string::npos) << error;
  EXPECT_NE(error.find("has sm_80; compile it with --target cuda:sm_80"), std::string::npos)
      << error;
  EXPECT_NE(errorOf("cuda:sm_90a").find("has sm_80"), std::string::npos);
}

TEST_F(Cuda, ReportsMissingDriversAndMemory) {
  {
    Environment environment("PSRT_CUDA_DRIVER", "/nowhere/libcuda.so.1");
    EXPECT_EQ(
        errorOf("cuda:replay"),
        "no CUDA driver on this machine (/nowhere/libcuda.so.1): use a machine with a driver, or "
        "--target cpu");
  }
  EXPECT_NE(errorOf("cuda:sm_90").find("this program is compiled for sm_90"), std::string::npos);
  Environment environment("PSRT_FAKE_MEMORY", "1000000");
  std::string error = errorOf("cuda:replay");
  EXPECT_NE(error.find("a rank needs 33.56 MB"), std::string::npos) << error;
  EXPECT_NE(error.find("values and scratch 0.00 MB"), std::string::npos) << error;
}
