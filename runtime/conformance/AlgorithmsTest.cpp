// Tests the choice of matmul algorithms with the fake driver and the fake cuBLASLt. The fastest
// algorithm is found by measurements, used, and stored in a file.
#include "runtime/device/cuda/Algorithms.h"
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/conformance/Environment.h"
#include "runtime/device/cuda/AlgorithmFile.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sys/stat.h>
#include <thread>

using namespace psrt;
using namespace psrt::cuda;

namespace {

constexpr int64_t kM = 6, kN = 10, kK = 4;

MatmulOp makeMatmul(Dtype dtype = Dtype::F32) {
  MatmulOp op;
  op.dtype = op.outDtype = dtype;
  op.m = kM, op.n = kN, op.k = kK;
  op.lhs = {0, 0, kK, 1}, op.rhs = {0, 0, kN, 1}, op.out = {0, 0, kN, 1};
  return op;
}

class AlgorithmChoice : public testing::Test {
protected:
  void SetUp() override {
    const char *driver = std::getenv("PSRT_CUDA_DRIVER");
    if (!driver || !*driver)
      GTEST_SKIP() << "PSRT_CUDA_DRIVER is not set to a fake driver";
    std::string pattern = (std::filesystem::temp_directory_path() / "algorithms-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    file = folder / "cache.json";
    set("PSRT_ALGORITHM_TIMING", "1");
    set("PSRT_ALGORITHM_CACHE", file.string());
    set("PSRT_FAKE_LOG", (folder / "log").string());
    set("PSRT_FAKE_ALGORITHMS", "20000,-,300,12000");
  }
  void TearDown() override {
    // Restores the variables in reverse order, so that a variable that was set twice gets its
    // original value.
    while (!environment.empty())
      environment.pop_back();
    if (!folder.empty())
      std::filesystem::remove_all(folder);
  }

  void set(const char *name, const std::string &value) {
    environment.push_back(std::make_unique<Environment>(name, value));
  }

  /// Runs a matmul with a bias, and stores the printed notes in `output`. Returns the index of the
  /// algorithm that was used.
  int run(bool accumulate = false) {
    std::filesystem::remove(folder / "log");
    std::vector<float> lhs = randomValues(kM * kK, 1), rhs = randomValues(kK * kN, 2),
                       out(kM * kN, 1), bias = randomValues(kN, 3);
    testing::internal::CaptureStderr();
    DeviceFixture(1, "cuda:replay").run(makeMatmul(), {lhs, rhs, out, bias}, accumulate);
    output = testing::internal::GetCapturedStderr();
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < kN; ++j) {
        double sum = bias[j] + (accumulate ? 1 : 0);
        for (int64_t k = 0; k < kK; ++k)
          sum += double(lhs[i * kK + k]) * rhs[k * kN + j];
        EXPECT_NEAR(out[i * kN + j], sum, 1e-5) << i << ' ' << j;
      }
    return findLast();
  }

  /// Reads the fake driver's log. Sets `matmuls`, and returns the algorithm of the last matmul.
  int findLast() {
    std::ifstream log(folder / "log");
    const std::string mark = "cublasLtMatmul algorithm ";
    int result = -1;
    matmuls = 0;
    for (std::string line; std::getline(log, line);)
      if (size_t at = line.find(mark); at != std::string::npos) {
        result = int(std::strtol(line.c_str() + at + mark.size(), nullptr, 10));
        ++matmuls;
      }
    return result;
  }

  std::string read() const {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string &text) const { std::ofstream(file) << text; }

  std::filesystem::path folder, file;
  std::string output;
  int matmuls = 0; ///< number of matmuls that the last run enqueued
  std::vector<std::unique_ptr<Environment>> environment;
};

} // namespace

/// Replaces the algorithms (cuBLASLt's encoded bits) in a cache file's text by BITS. Comparisons of
/// such texts ignore which algorithm was measured as the fastest.
static std::string withoutBits(const std::string &text) {
  return std::regex_replace(text, std::regex("\"[0-9a-f]{100,}\""), "BITS");
}

TEST_F(AlgorithmChoice, TheFastestIsUsedAndStored) {
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(output, "");
  EXPECT_GT(matmuls, 6);
  // A stored choice is not measured again, even if another algorithm is now faster.
  set("PSRT_FAKE_ALGORITHMS", "0,0,20000,0");
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(matmuls, 1);
  EXPECT_EQ(run(/*accumulate=*/true), 2);
  EXPECT_EQ(matmuls, 1);
}

TEST_F(AlgorithmChoice, TheFirstOfEquallyFastAlgorithmsIsUsed) {
  // Each algorithm takes 40 ms, so the delays of a busy machine stay below 3 %. Smaller differences
  // count as noise (`minGain` in CublasLtMatmul.cpp).
  set("PSRT_FAKE_ALGORITHMS", "40000,40000,40000");
  EXPECT_EQ(run(), 0);
}

TEST_F(AlgorithmChoice, WithoutMeasuringTheFirstIsUsed) {
  run();
  set("PSRT_ALGORITHM_TIMING", "0");
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(matmuls, 1);
}

TEST_F(AlgorithmChoice, WithoutAFileEachRunMeasures) {
  set("PSRT_ALGORITHM_CACHE", "");
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(run(), 2);
  EXPECT_GT(matmuls, 6);
  EXPECT_EQ(output, "");
}

TEST_F(AlgorithmChoice, TheFileIsInTheFolderOfCaches) {
  unsetenv("PSRT_ALGORITHM_CACHE"); // restored by the fixture's environment
  set("XDG_CACHE_HOME", folder.string());
  EXPECT_EQ(run(), 2);
  std::string found;
  for (const auto &entry : std::filesystem::directory_iterator(folder / "parashard"))
    if (entry.path().extension() == ".json")
      found = entry.path().filename().string();
  EXPECT_EQ(found.rfind("algorithms-", 0), 0u) << found;
  EXPECT_NE(found.find("-130100.json"), std::string::npos) << found;
  EXPECT_EQ(found.find(' '), std::string::npos) << found;
}

TEST_F(AlgorithmChoice, ATruncatedFileIsReplacedWithANote) {
  run();
  std::string good = read();
  for (const std::string &text : {std::string("{"), good.substr(0, 12), good.substr(0, 40),
                                  good.substr(0, good.size() / 2)}) {
    write(text);
    EXPECT_EQ(run(), 2);
    EXPECT_NE(output.find("not an algorithm cache"), std::string::npos) << output;
    EXPECT_EQ(withoutBits(read()), withoutBits(good));
  }
}

/// PSRT_ALGORITHM_CACHE may be the path of some other file of the user, by mistake.
TEST_F(AlgorithmChoice, AnotherKindOfFileIsNotOverwritten) {
  for (const std::string &text : {std::string("[1]"), std::string("{}"), std::string("\xff\xfe"),
                                  std::string("for dinner\n"), std::string(R"({"a": 2})")}) {
    write(text);
    EXPECT_EQ(run(), 2);
    EXPECT_NE(output.find("is not overwritten"), std::string::npos) << output;
    EXPECT_EQ(read(), text);
  }
}

TEST_F(AlgorithmChoice, FoldersAndPipesAreNotOverwritten) {
  set("PSRT_ALGORITHM_CACHE", folder.string());
  EXPECT_EQ(run(), 2);
  EXPECT_NE(output.find("not a regular file"), std::string::npos) << output;
  EXPECT_TRUE(std::filesystem::is_directory(folder));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  set("PSRT_ALGORITHM_CACHE", (folder / "pipe").string());
  EXPECT_EQ(run(), 2);
  EXPECT_NE(output.find("not a regular file"), std::string::npos) << output;
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST_F(AlgorithmChoice, AFileOfAnotherVersionIsReplacedWithANote) {
  run();
  std::string good = read(), foreign = good;
  foreign.replace(foreign.find("130100"), 6, "120900");
  write(foreign);
  EXPECT_EQ(run(), 2);
  EXPECT_NE(output.find("cuBLASLt 120900"), std::string::npos) << output;
  EXPECT_EQ(withoutBits(read()), withoutBits(good));
}

TEST_F(AlgorithmChoice, InvalidBitsAreMeasuredAgain) {
  run();
  std::string good = read(), wrong = good;
  wrong[wrong.rfind('4')] = '5'; // this digit is in the last word of the bits
  write(wrong);
  EXPECT_EQ(run(), 2);
  EXPECT_GT(matmuls, 6);
  EXPECT_NE(read(), wrong);
  EXPECT_EQ(withoutBits(read()), withoutBits(good));
}

TEST_F(AlgorithmChoice, AWriteErrorIsReportedOnce) {
  set("PSRT_ALGORITHM_CACHE", "/proc/nowhere/cache.json");
  EXPECT_EQ(run(), 2);
  size_t at = output.find("note: cannot write \"/proc/nowhere/cache.json\"");
  EXPECT_NE(at, std::string::npos) << output;
  EXPECT_EQ(output.find("note:", at + 1), std::string::npos) << output;
}

TEST_F(AlgorithmChoice, WithoutMemoryToMeasureTheFirstIsUsed) {
  // There is enough memory for the workspace and the matmul, but not for the buffers of the
  // measurement.
  set("PSRT_FAKE_MEMORY", "50000000");
  EXPECT_EQ(run(), 0);
  EXPECT_FALSE(std::filesystem::exists(file));
}

/// Each process adds its choices to those of other processes. Here, each Algorithms object stands
/// for a process.
TEST_F(AlgorithmChoice, ProcessesAddToOneFile) {
  auto driver = loadDriver();
  Gpu gpu(driver, 0);
  Algorithms first(gpu, kMatmulAlgorithms), second(gpu, kMatmulAlgorithms);
  first.open(1);
  second.open(1);
  auto add = [](Algorithms &algorithms, const std::string &name, int number) {
    auto always = [](const std::string &) { return true; };
    auto found =
        algorithms.choose(name, always, [&] { return std::optional(std::to_string(number)); });
    return std::stoi(found.value());
  };
  std::thread other([&] {
    for (int i = 0; i < 20; ++i)
      add(second, "b" + std::to_string(i), 200 + i);
  });
  for (int i = 0; i < 20; ++i)
    add(first, "a" + std::to_string(i), 100 + i);
  other.join();
  EXPECT_EQ(add(first, "b7", 1), 207); // `second` stored this choice after `first` was opened
  Algorithms third(gpu, kMatmulAlgorithms);
  third.open(1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(add(third, "a" + std::to_string(i), 2), 100 + i);
    EXPECT_EQ(add(third, "b" + std::to_string(i), 2), 200 + i);
  }
}
