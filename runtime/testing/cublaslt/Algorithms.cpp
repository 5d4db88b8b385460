// Encodes algorithms as bits.
#include "runtime/testing/cublaslt/Algorithms.h"
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

namespace psrt::fake {

namespace {

/// Bytes of workspace that each algorithm requests, so that tests also cover workspaces. If the
/// caller allows less, an algorithm requests what the caller allows.
constexpr uint64_t wantedWorkspace = 4096;
/// Bytes of the widest load or store.
constexpr uintptr_t widestLoad = 16;
/// Last word of an algorithm's bits, which marks valid bits.
constexpr uint64_t signature = 0x5053525453544e44;

/// Returns the duration of each algorithm in microseconds; -1 for an algorithm that is not
/// supported.
std::vector<int> readSpeeds() {
  const char *text = std::getenv("PSRT_FAKE_ALGORITHMS");
  if (!text || !*text)
    return {0, 0, 0};
  std::vector<int> speeds;
  std::istringstream stream(text);
  for (std::string entry; std::getline(stream, entry, ',');)
    speeds.push_back(entry == "-" ? -1 : std::max(0, int(std::strtol(entry.c_str(), nullptr, 10))));
  return speeds;
}

} // namespace

std::vector<cublasLtMatmulHeuristicResult_t> offerAlgorithms(uint64_t workspace,
                                                             const void *vector) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(vector) | widestLoad;
  std::vector<cublasLtMatmulHeuristicResult_t> offered;
  for (int microseconds : readSpeeds()) {
    cublasLtMatmulHeuristicResult_t result{};
    result.workspaceSize = std::min(workspace, wantedWorkspace);
    result.algo.data[0] = result.workspaceSize;
    result.algo.data[1] = offered.size();
    result.algo.data[2] = bits & -bits;
    result.algo.data[7] = signature;
    result.state = microseconds < 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
    offered.push_back(result);
  }
  return offered;
}

bool decode(const cublasLtMatmulAlgo_t &bits, Algorithm &algorithm) {
  std::vector<int> speeds = readSpeeds();
  if (bits.data[7] != signature || bits.data[1] >= speeds.size() || speeds[bits.data[1]] < 0)
    return false;
  algorithm = {bits.data[0], bits.data[1], unsigned(speeds[bits.data[1]]), bits.data[2]};
  return true;
}

} // namespace psrt::fake
