// Runs single instructions on a device, for tests.
#ifndef PSRT_CONFORMANCE_DEVICEFIXTURE_H
#define PSRT_CONFORMANCE_DEVICEFIXTURE_H

#include "runtime/core/Backend.h"
#include "runtime/core/Element.h"
#include <cmath>
#include <cstdlib>
#include <random>

namespace psrt {

/// A buffer of an instruction: a vector or a number of the test. Null or an empty vector means that
/// the instruction has no such buffer.
struct TestBuffer {
  void *data = nullptr;
  size_t bytes = 0;
  TestBuffer(std::nullptr_t = nullptr) {}
  template <typename T>
  TestBuffer(std::vector<T> &values)
      : data(values.empty() ? nullptr : values.data()), bytes(values.size() * sizeof(T)) {}
  TestBuffer(int64_t *number) : data(number), bytes(number ? sizeof(*number) : 0) {}
};

/// Provides test buffers to an instruction. A CPU rank uses the buffers directly; a GPU rank uses
/// copies in device memory.
class TestMemory {
public:
  TestMemory(RankDevice &rank, const std::vector<TestBuffer> &given) : buffers(given) {
    size_t all = 0;
    for (const TestBuffer &buffer : buffers)
      all += (buffer.bytes + 255) / 256 * 256;
    memory = rank.makeMemory(all);
    bool isHost = memory->host(0) != nullptr;
    for (int64_t at = 0; const TestBuffer &buffer : buffers) {
      addresses.push_back(isHost ? -1 : at);
      pointers.push_back(isHost || !buffer.data ? buffer.data : memory->at(at));
      at += int64_t(buffer.bytes + 255) / 256 * 256;
    }
    bring();
  }
  /// bring() copies the test's buffers to device memory, and bringBack() copies them back. On the
  /// CPU, both do nothing.
  void bring() {
    for (size_t i = 0; i < buffers.size(); ++i)
      if (addresses[i] >= 0 && buffers[i].data)
        memory->write(addresses[i], buffers[i].data, buffers[i].bytes);
  }
  void bringBack() {
    for (size_t i = 0; i < buffers.size(); ++i)
      if (addresses[i] >= 0 && buffers[i].data)
        memory->read(addresses[i], buffers[i].data, buffers[i].bytes);
  }
  std::vector<void *> pointers;

private:
  std::vector<TestBuffer> buffers;
  std::unique_ptr<RankMemory> memory;
  std::vector<int64_t> addresses;
};

/// Returns "cpu", or the value of $PSRT_TEST_TARGET.
inline std::string testTarget() {
  const char *target = std::getenv("PSRT_TEST_TARGET");
  return target ? target : "cpu";
}

/// Returns whether the tests run on a GPU with NVIDIA's libraries. These libraries round more often
/// than the CPU and the fake libraries do.
inline bool usesNvidia() { return testTarget() != "cpu" && testTarget() != "cuda:replay"; }

/// Makes a device for `ranks` ranks of this process. The device's program consists of the
/// instructions `code` on every pipeline coordinate.
inline std::unique_ptr<Device> makeTestDevice(const std::string &target, const Mesh &mesh = {},
                                              int ranks = 1,
                                              const std::vector<Instruction> &code = {}) {
  Program program;
  program.target = parseTarget(target);
  program.mesh = mesh;
  program.entries.emplace_back();
  program.entries.back().programs.resize(mesh.pipelineSize());
  for (EntryCode &each : program.entries.back().programs)
    each.instructions = code;
  program.arenaBytes.resize(mesh.pipelineSize());
  ProgramSource source;
  return makeDevice({program, source, ranks, 0, true, std::nullopt});
}

/// Runs single instructions on a device.
class DeviceFixture {
public:
  explicit DeviceFixture(int threads = 2, const std::string &target = testTarget())
      : threads(threads), device(makeTestDevice(target)),
        rank(device->makeRank(threads, false, 0)) {}

  template <typename Op>
  void run(const Op &op, const std::vector<TestBuffer> &buffers, bool accumulate = false,
           int64_t key = 0, int64_t step = 0) {
    Instruction instruction;
    instruction.op = op;
    instruction.buffers.resize(buffers.size());
    // Makes a new rank for each instruction. A rank stores prepared data under the address of the
    // instruction, and the next instruction may have the same address.
    rank = device->makeRank(threads, false, 0);
    int64_t scalars[] = {42, step, 0};
    TestMemory memory(*rank, buffers);
    Bound bound;
    bound.instruction = &instruction;
    bound.buffers = memory.pointers.data();
    bound.scalars = rank->mirror(scalars, std::size(scalars));
    bound.accumulate = accumulate;
    bound.key = key;
    rank->bind(bound);
    rank->reserve();
    rank->begin(scalars);
    bound.run(bound);
    memory.bringBack();
  }
  RankDevice &getRank() { return *rank; }

private:
  int threads;
  std::unique_ptr<Device> device;
  std::unique_ptr<RankDevice> rank;
};

inline std::vector<float> randomValues(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float &x : result)
    x = normal(generator);
  return result;
}

/// Returns random whole numbers from -8 to 8, which are exact in every dtype. Sums of a few
/// thousand products of such numbers are exact in f32.
inline std::vector<float> randomIntegers(int64_t count, int seed) {
  std::mt19937 generator(seed);
  std::vector<float> result(count);
  for (float &x : result)
    x = float(int(generator() % 17)) - 8;
  return result;
}

/// Rounds numbers to a float dtype and returns their bytes.
inline std::vector<char> encode(const std::vector<float> &values, Dtype dtype) {
  std::vector<char> result(values.size() * dtypeSize(dtype));
  convertFloats(reinterpret_cast<const char *>(values.data()), Dtype::F32, result.data(), dtype,
                values.size());
  return result;
}

inline std::vector<float> decode(const std::vector<char> &bytes, Dtype dtype) {
  std::vector<float> result(bytes.size() / dtypeSize(dtype));
  convertFloats(bytes.data(), dtype, reinterpret_cast<char *>(result.data()), Dtype::F32,
                result.size());
  return result;
}

/// Returns the numbers rounded to `dtype`.
inline std::vector<float> roundTo(const std::vector<float> &values, Dtype dtype) {
  return decode(encode(values, dtype), dtype);
}

/// Returns the largest rounding error of numbers near 1: half of the last bit.
inline double roundingOf(Dtype dtype) { return dtype == Dtype::BF16 ? 0x1p-8 : 0x1p-11; }

} // namespace psrt

#endif
