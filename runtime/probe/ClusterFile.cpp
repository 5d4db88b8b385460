// Derives the figures of a cluster file from measurements.
#include "runtime/probe/ClusterFile.h"
#include "runtime/core/Status.h"
#include "runtime/main/Parts.h"
#include "runtime/probe/Fit.h"
#include "shared/ThisMachine.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <unistd.h>

namespace psrt {
namespace {

/// Computes the figures of a cluster file from measurements.
class Figures {
public:
  explicit Figures(const std::vector<Probe> &probes) : probes(probes) {}

  /// Returns the measurements of a figure that have a time. An empty `name` selects every name.
  std::vector<Probe> list(Figure figure, const std::string &name = "") const {
    std::vector<Probe> result;
    for (const Probe &probe : probes)
      if (probe.figure == figure && probe.seconds > 0 && (name.empty() || probe.name == name))
        result.push_back(probe);
    return result;
  }
  static std::vector<Sample> toSamples(const std::vector<Probe> &measured) {
    std::vector<Sample> result;
    result.reserve(measured.size());
    for (const Probe &probe : measured)
      result.push_back({probe.work, probe.seconds});
    return result;
  }
  /// Returns the median rate of a figure in work per second; 0 without measurements.
  double getRate(Figure figure, const std::string &name = "") const {
    std::vector<double> rates;
    for (const Probe &probe : list(figure, name))
      rates.push_back(probe.work / probe.seconds);
    return rates.empty() ? 0 : findMedian(rates);
  }
  double getSeconds(Figure figure) const {
    std::vector<Probe> measured = list(figure);
    return measured.empty() ? 0 : measured.front().seconds;
  }

  double getMemoryBandwidth() const {
    double fastest = getRate(Figure::Copy);
    for (const Probe &kernel : list(Figure::Kernel))
      fastest = std::max(fastest, kernel.work / kernel.seconds);
    return fastest;
  }
  /// Returns the rate of attention relative to matmuls; 1 without measurements.
  double getAttentionShare(const std::string &name) const {
    double matmul = getRate(Figure::AttentionMatmul, name);
    double attention = getRate(Figure::Attention, name);
    return matmul > 0 && attention > 0 ? std::clamp(attention / matmul, 0.01, 2.0) : 1;
  }
  double getLaunch() const {
    double rate = getRate(Figure::Launch);
    return rate > 0 ? 1 / rate : 0;
  }
  double getSlowdown() const {
    double matmul = getSeconds(Figure::OverlapMatmul);
    double collective = getSeconds(Figure::OverlapCollective), both = getSeconds(Figure::Overlap);
    if (matmul <= 0 || collective <= 0 || both <= 0)
      return 1;
    return fitSlowdown(matmul * std::max(1.0, std::round(collective / matmul)), collective, both);
  }
  /// Returns the link between neighbors on one host. With a single rank per host, the link has the
  /// bandwidth of a copy in memory, and latency 0.
  FittedLink getHostLink(int64_t perHost) const {
    std::vector<Probe> messages = list(Figure::Collective, "permute");
    std::erase_if(messages, [&](const Probe &probe) { return probe.ranks != perHost; });
    return messages.empty() ? FittedLink{0, getRate(Figure::Copy) / 2}
                            : fitLink(toSamples(messages));
  }

private:
  const std::vector<Probe> &probes;
};

std::string printRate(const FittedRate &rate) {
  std::string text = "{\"peak\": \"" + printQuantity(rate.peak, "FLOP/s") + "\", \"efficiency\": [";
  for (const EfficiencyPoint &point : rate.efficiency)
    text += format("%s[%.3g, %.3g]", point.flops == rate.efficiency.front().flops ? "" : ", ",
                   point.flops, point.share);
  return text + "]}";
}

std::string printMatmuls(const Figures &figures) {
  std::string text;
  for (const char *type : {"f32", "bf16", "f16"}) {
    std::vector<Probe> measured = figures.list(Figure::Matmul, type);
    if (!measured.empty())
      text += format("%s\n      \"%s\": %s", text.empty() ? "" : ",", type,
                     printRate(fitRate(Figures::toSamples(measured))).c_str());
  }
  return text;
}

std::string printDevice(const Figures &figures, const Target &target, const MachineInfo &machine) {
  constexpr double kReserved = 0.1; // share for the system, the runtime and communication
  auto line = [](const char *key, const std::string &value) {
    return format("    \"%s\": %s,\n", key, value.c_str());
  };
  auto quantity = [&](const char *key, double value, const char *unit) {
    return line(key, psrt::quoted(printQuantity(value, unit)));
  };
  double bandwidth = figures.getMemoryBandwidth();
  std::string text = line("target", psrt::quoted(target.text));
  text += quantity("memory", machine.memory, "B");
  text += quantity("reserve", machine.memory * kReserved, "B");
  text += quantity("memory_bandwidth", bandwidth, "B/s");
  text += quantity("launch", figures.getLaunch(), "s");
  text += quantity("host_bandwidth", figures.getRate(Figure::HostCopy), "B/s");
  if (double kernels = figures.getRate(Figure::Kernel); kernels > 0)
    text +=
        line("elementwise_efficiency", format("%.3g", std::clamp(kernels / bandwidth, 0.01, 1.0)));
  for (const char *name : {"forward", "backward"})
    text += format("    \"attention_%s\": %.3g,\n", name, figures.getAttentionShare(name));
  return "{\n" + text + "    \"matmul\": {" + printMatmuls(figures) + "\n    }\n  }";
}

std::string printTier(const char *name, int64_t ranks, const FittedLink &link) {
  std::string size = ranks > 0 ? format("\"ranks\": %lld, ", (long long)ranks) : "";
  return format("    {\"name\": \"%s\", %s\"bandwidth\": \"%s\", \"latency\": \"%s\"}", name,
                size.c_str(), printQuantity(link.bandwidth, "B/s").c_str(),
                printQuantity(link.latency, "s").c_str());
}

std::string printTiers(const Figures &figures, const RankLayout &layout) {
  std::string text = printTier("host", layout.perHost, figures.getHostLink(layout.perHost));
  if (layout.hosts > 1)
    text += ",\n" +
            printTier("network", 0, fitLink(Figures::toSamples(figures.list(Figure::HostMessage))));
  return "[\n" + text + "\n  ]";
}

std::string printMeasured(const Figures &figures) {
  std::map<std::string, std::map<int64_t, std::vector<Sample>>> tables;
  for (const Probe &probe : figures.list(Figure::Collective))
    tables[probe.name][probe.ranks].push_back({probe.work, probe.seconds});
  std::string text;
  for (auto &[name, byRanks] : tables) {
    std::string entries;
    for (auto &[ranks, samples] : byRanks) {
      makeAscending(samples);
      for (const Sample &sample : samples)
        entries += format("%s[%lld, \"%s\", \"%s\"]", entries.empty() ? "" : ", ", (long long)ranks,
                          printBytes(int64_t(sample.work)).c_str(),
                          printQuantity(sample.seconds, "s").c_str());
    }
    text += format("%s\n    \"%s\": [%s]", text.empty() ? "" : ",", name.c_str(), entries.c_str());
  }
  return "{" + text + "\n  }";
}

/// Returns the number in a file, or infinity if the file has no number.
double readNumber(const char *path) {
  std::ifstream file(path);
  double number = INFINITY;
  return file >> number ? number : INFINITY;
}

} // namespace

MachineInfo findMachine(int64_t ranks) {
  MachineInfo result;
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  result.host = name;
  result.model = parashard::findProcessor();
  double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  for (const char *limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    memory = std::min(memory, readNumber(limit));
  result.memory = memory / double(ranks);
  return result;
}

std::string printCluster(const std::vector<Probe> &probes, const RankLayout &layout,
                         const Target &target, const MachineInfo &machine, const std::string &date,
                         const std::optional<std::string> &note) {
  Figures figures(probes);
  std::string source =
      format("psrt-probe, %s, %s, %s, %lld ranks", date.c_str(), machine.host.c_str(),
             machine.model.c_str(), (long long)layout.size());
  if (note)
    source += "; " + *note;
  std::string text = "{\n  \"name\": " + psrt::quoted(machine.host.empty() ? "host" : machine.host);
  text += ",\n  \"source\": " + psrt::quoted(source);
  text += ",\n  \"device\": " + printDevice(figures, target, machine);
  text += ",\n  \"tiers\": " + printTiers(figures, layout);
  if (layout.size() > 1)
    text += format(",\n  \"overlap_slowdown\": %.3g", figures.getSlowdown());
  if (!figures.list(Figure::Collective).empty())
    text += ",\n  \"measured\": " + printMeasured(figures);
  return text + "\n}\n";
}

} // namespace psrt
