// Checks the architecture and the memory.
#include "runtime/device/cuda/Requirements.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Workspace.h"
#include <cstdlib>
#include <fstream>

namespace psrt::cuda {

static void refuseTarget(const std::string &target, const Gpu &gpu) {
  refuse("the program is compiled for %s, but GPU %d (%s) has sm_%d; compile it with --target "
         "cuda:sm_%d",
         target.c_str(), gpu.getOrdinal(), gpu.getName().c_str(), gpu.getArchitecture(),
         gpu.getArchitecture());
}

void checkTarget(const Program &program, const Gpu &gpu) {
  const Target &wanted = program.target;
  std::string target = wanted.text.substr(wanted.text.find(':') + 1);
  if (wanted.isReplay && !gpu.getDriver().isFake())
    refuseTarget("the fake driver (replay)", gpu);
  if (wanted.isReplay)
    return;
  // PTX for an architecture also runs on all later ones. With a letter suffix (sm_90a), PTX runs on
  // that architecture only.
  if (gpu.getArchitecture() < wanted.architecture ||
      (wanted.isExact && gpu.getArchitecture() != wanted.architecture))
    refuseTarget(target, gpu);
  if (gpu.getDriver().isFake())
    refuse("the fake driver (PSRT_CUDA_DRIVER) only runs programs compiled with --target "
           "cuda:replay; this program is compiled for %s",
           target.c_str());
}

static std::string sizeText(int64_t bytes) {
  if (bytes >= 100'000'000)
    return format("%.2f GB", double(bytes) * 1e-9);
  return format("%.2f MB", double(bytes) * 1e-6);
}

/// Returns the four largest kinds of data in one pipeline coordinate's memory, with their sizes, as
/// text.
static std::string describeHolders(const Program &program, int64_t coordinate) {
  std::map<std::string, int64_t> kinds;
  int64_t rest = program.arenaBytes[coordinate];
  for (const Variable &variable : program.variables)
    if (variable.addresses.isAt(coordinate) &&
        !program.isInHost(variable.addresses.at(coordinate), coordinate)) {
      kinds[nameOf(variable.kind)] += variable.localBytes();
      rest -= variable.localBytes();
    }
  kinds["values and scratch"] = std::max<int64_t>(0, rest);
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto &[kind, bytes] : kinds)
    sorted.emplace_back(-bytes, kind);
  std::sort(sorted.begin(), sorted.end());
  std::string result;
  for (size_t i = 0; i < sorted.size() && i < 4; ++i)
    result += (i ? ", " : "") + sorted[i].second + " " + sizeText(-sorted[i].first);
  return result;
}

/// Returns the bytes of available host memory, or -1 if unknown.
static int64_t findAvailable() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (int64_t kilobytes = 0; file >> name >> kilobytes; file.ignore(256, '\n'))
    if (name == "MemAvailable:")
      return kilobytes * 1024;
  return -1;
}

/// Fails if the offloaded data does not fit into the available host memory. (Offloaded data is in
/// pinned memory, which cannot be swapped out.)
static void checkHostMemory(const Program &program, const std::vector<int> &ranks) {
  int64_t needed = 0, available = findAvailable();
  for (int rank : ranks) {
    int64_t coordinate = program.mesh.pipelineCoordinate(program.mesh.coordinates(rank));
    needed += program.hasHostPart(coordinate) ? program.hostBytes[coordinate] : 0;
  }
  if (needed > 0 && available >= 0 && needed > available)
    refuse("the host has %s of memory available, but the offloaded tensors of %zu rank%s need %s; "
           "compile for more ranks on other hosts, with --zero, or without --offload",
           sizeText(available).c_str(), ranks.size(), ranks.size() == 1 ? "" : "s",
           sizeText(needed).c_str());
}

void checkMemory(const Program &program, const std::vector<int> &ranks, const Gpu &gpu) {
  checkHostMemory(program, ranks);
  int64_t needed = 0, largest = 0;
  for (int rank : ranks) {
    int64_t coordinate = program.mesh.pipelineCoordinate(program.mesh.coordinates(rank));
    needed += program.arenaBytes[coordinate] + bytesBesides(program, coordinate);
    if (program.arenaBytes[coordinate] > program.arenaBytes[largest])
      largest = coordinate;
  }
  int64_t free = int64_t(gpu.freeMemory());
  if (needed <= free)
    return;
  std::string who = ranks.size() == 1 ? "a rank" : format("%zu ranks on it", ranks.size());
  refuse(
      "GPU %d (%s) has %s free, but %s need%s %s (%s per rank: %s); compile for more ranks, with "
      "--zero, or with a smaller --batch or more --micro-batches",
      gpu.getOrdinal(), gpu.getName().c_str(), sizeText(free).c_str(), who.c_str(),
      ranks.size() == 1 ? "s" : "", sizeText(needed).c_str(),
      sizeText(program.arenaBytes[largest]).c_str(), describeHolders(program, largest).c_str());
}

} // namespace psrt::cuda
