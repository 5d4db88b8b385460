// Reads /proc/stat, and detects the use of cores by other programs.
#include "runtime/probe/CoreUse.h"
#include "runtime/core/Status.h"
#include "runtime/main/Progress.h"
#include "shared/ThisMachine.h"
#include <algorithm>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace psrt {

CoreUse parseStat(std::istream &stat, double ticks) {
  CoreUse result;
  for (std::string line; std::getline(stat, line) && line.starts_with("cpu");) {
    if (!line.starts_with("cpu ")) {
      ++result.cores;
      continue;
    }
    std::istringstream text(line.substr(3));
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0;
    text >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal;
    result.busy = (user + nice + system + irq + softirq + steal) / ticks;
  }
  return result;
}

CoreUse readCoreUse() {
  std::ifstream stat("/proc/stat");
  CoreUse result = parseStat(stat, double(sysconf(_SC_CLK_TCK)));
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  auto toSeconds = [](const timeval &time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  result.own = toSeconds(own.ru_utime) + toSeconds(own.ru_stime);
  result.wall = steadySeconds();
  return result;
}

CoreUse subtract(const CoreUse &end, const CoreUse &begin) {
  return {end.wall - begin.wall, end.busy - begin.busy, end.own - begin.own,
          std::min(end.cores, begin.cores)};
}

std::string print(const CoreUse &use) {
  return format("%.9g %.9g %.9g %lld", use.wall, use.busy, use.own, (long long)use.cores);
}

CoreUse parseCoreUse(const std::string &text) {
  std::istringstream stream(text);
  CoreUse use;
  return stream >> use.wall >> use.busy >> use.own >> use.cores ? use : CoreUse();
}

std::optional<std::string> describeOthers(const std::vector<CoreUse> &processes, int64_t threads) {
  // Maximum share of the needed cores that other programs may use. On an idle machine with 2 cores,
  // other programs use a share of at most 0.03. One busy loop uses a share of 0.45, and two use
  // 0.8.
  constexpr double kMax = 0.1;
  if (processes.empty() || processes.front().cores == 0 || processes.front().wall <= 0)
    return std::nullopt;
  const CoreUse &first = processes.front();
  double own = 0;
  for (const CoreUse &use : processes)
    own += use.own;
  double others = (first.busy - own) / first.wall;
  double needed = double(std::min(threads, first.cores));
  double missing = others - (double(first.cores) - needed);
  if (missing <= kMax * needed)
    return std::nullopt;
  return format("%s used %.1f of %lld cores", parashard::kDisturbance, others,
                (long long)first.cores);
}

} // namespace psrt
