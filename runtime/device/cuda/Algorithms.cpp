// Measures, stores and looks up choices of algorithms.
#include "runtime/device/cuda/Algorithms.h"
#include "runtime/device/cuda/Switches.h"
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace psrt::cuda {

static bool isMeasuring(const Gpu &gpu) {
  // Timings on the fake driver are meaningless. They are only measured on request, for tests.
  return readSwitch("PSRT_ALGORITHM_TIMING").value_or(!gpu.getDriver().isFake());
}

Algorithms::Algorithms(const Gpu &gpu, const AlgorithmKind &kind)
    : kind(kind), measures(isMeasuring(gpu)) {
  origin.library = kind.library;
  origin.gpu = gpu.getName();
  origin.processors = gpu.getProcessors();
}

void Algorithms::open(size_t version) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!measures || origin.version == version)
    return;
  origin.version = version;
  path = findAlgorithmFile(origin);
  if (std::string owner = findOwner(path); !owner.empty()) {
    std::fprintf(
        stderr,
        "note: \"%s\" (PSRT_ALGORITHM_CACHE) is not overwritten, because %s; %s are measured in "
        "every run; set PSRT_ALGORITHM_CACHE to another file to avoid this\n",
        path.c_str(), owner.c_str(), kind.measured);
    path.clear();
    return;
  }
  std::error_code ignored; // a failing write reports the reason
  if (auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ignored);
  read();
}

void Algorithms::read() {
  if (path.empty())
    return;
  std::string complaint;
  // Choices made by this process are kept, because its captured CUDA graphs use them.
  known.merge(readAlgorithms(path, origin, complaint));
  if (!complaint.empty() && !std::exchange(hasReportedReading, true))
    std::fprintf(stderr,
                 "note: \"%s\" (PSRT_ALGORITHM_CACHE) is ignored and will be replaced: %s\n",
                 path.c_str(), complaint.c_str());
}

void Algorithms::write() {
  if (path.empty())
    return;
  std::string reason = writeAlgorithms(path, origin, known);
  if (reason.empty() || std::exchange(hasReportedWriting, true))
    return;
  std::fprintf(stderr,
               "note: cannot write \"%s\": %s; %s are measured in every run; set "
               "PSRT_ALGORITHM_CACHE to another file to avoid this\n",
               path.c_str(), reason.c_str(), kind.measured);
}

std::optional<std::string>
Algorithms::find(const std::string &problem,
                 const std::function<bool(const Algorithm &)> &isUsable) const {
  auto entry = known.find(problem);
  if (entry == known.end() || !isUsable(entry->second))
    return std::nullopt;
  return entry->second;
}

std::optional<std::string>
Algorithms::measureInTime(const std::string &problem,
                          const std::function<std::optional<Algorithm>()> &measure) {
  if (seconds >= kMaxSeconds) {
    if (!std::exchange(hasReportedTime, true))
      std::fprintf(
          stderr,
          "note: measuring %s has taken %.0f s; the remaining problems, beginning with %s, "
          "use %s\n",
          kind.measured, seconds, problem.c_str(), kind.taken);
    return std::nullopt;
  }
  auto begin = std::chrono::steady_clock::now();
  std::optional<Algorithm> result = measure();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

std::optional<std::string>
Algorithms::choose(const std::string &problem,
                   const std::function<bool(const Algorithm &)> &isUsable,
                   const std::function<std::optional<Algorithm>()> &measure) {
  std::lock_guard<std::mutex> lock(mutex);
  if (auto found = find(problem, isUsable))
    return found;
  AlgorithmFileLock fileLock(path);
  known.erase(problem);
  read(); // another process may have measured this problem meanwhile
  if (auto found = find(problem, isUsable))
    return found;
  std::optional<Algorithm> result = measureInTime(problem, measure);
  if (result) {
    known[problem] = *result;
    write();
  }
  return result;
}

} // namespace psrt::cuda
