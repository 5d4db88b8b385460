// Reads cluster files, and computes the rates that they describe.
#include "lib/Costs/Cluster.h"
#include "lib/Costs/Quantity.h"
#include "lib/Support/JsonDocument.h"
#include "lib/Support/TargetName.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>

using namespace llvm;
using namespace parashard::support;

namespace parashard::costs {

double MatmulRate::getSeconds(double flops) const {
  if (efficiency.empty() || flops <= 0)
    return flops / peak;
  auto above =
      llvm::find_if(efficiency, [&](const EfficiencyPoint &p) { return p.flops >= flops; });
  double share;
  if (above == efficiency.begin())
    share = above->share;
  else if (above == efficiency.end())
    share = efficiency.back().share;
  else {
    const EfficiencyPoint &below = above[-1];
    double position = std::log(flops / below.flops) / std::log(above->flops / below.flops);
    share = below.share + position * (above->share - below.share);
  }
  return flops / (peak * share);
}

const MatmulRate &Device::getMatmulRate(StringRef type) const {
  auto own = matmul.find(type.str());
  return own == matmul.end() ? matmul.at("f32") : own->second;
}

std::vector<Cluster> varyFigures(const Cluster &cluster, double share) {
  std::vector<Cluster> varied;
  for (double factor : {1 - share, 1 + share}) {
    auto add = [&](auto change) {
      varied.push_back(cluster);
      change(varied.back());
    };
    add([&](Cluster &c) {
      for (auto &[type, rate] : c.device.matmul)
        rate.peak *= factor;
    });
    add([&](Cluster &c) { c.device.memoryBandwidth *= factor; });
    add([&](Cluster &c) { c.device.launch *= factor; });
    for (size_t tier = 0; tier < cluster.tiers.size(); ++tier) {
      add([&](Cluster &c) { c.tiers[tier].bandwidth *= factor; });
      add([&](Cluster &c) { c.tiers[tier].latency *= factor; });
    }
  }
  return varied;
}

std::optional<int64_t> Cluster::getMostRanks() const {
  int64_t ranks = tiers.back().ranks;
  return ranks == 0 ? std::nullopt : std::optional(ranks);
}

namespace {

/// Reads one cluster file. Errors start with the file's path.
class Reader {
public:
  explicit Reader(StringRef path) : path(path) {}

  Expected<Cluster> read(StringRef text) {
    Expected<JsonDocument> json = JsonDocument::parse(text);
    if (!json)
      return fail("", toString(json.takeError()));
    Cluster cluster;
    std::vector<Field> fields = {
        {"name", true, readText(cluster.name)},
        {"source", true, readText(cluster.source)},
        {"device", true,
         [&](JsonValue value, StringRef where) -> Error {
           return readDevice(value, where, cluster.device);
         }},
        {"tiers", true,
         [&](JsonValue value, StringRef where) { return readTiers(value, where, cluster.tiers); }},
        {"overlap_slowdown", false, readNumber(cluster.overlapSlowdown, 1, 100)},
        {"measured", false,
         [&](JsonValue value, StringRef where) { return readMeasured(value, where, cluster); }}};
    if (Error error = readObject(json->getRoot(), "", fields))
      return std::move(error);
    return cluster;
  }

private:
  using ReadValue = std::function<Error(JsonValue value, StringRef where)>;
  struct Field {
    StringRef key;
    bool isRequired;
    ReadValue read;
  };

  /// Creates an error about the value at `where`, such as "device.memory".
  Error fail(StringRef where, const Twine &message) const {
    return createStringError(path + ": " + (where.empty() ? "" : where + " ") + message);
  }

  Error readObject(JsonValue value, StringRef where, ArrayRef<Field> fields) {
    std::vector<std::string> known;
    for (const Field &field : fields)
      known.push_back(field.key.str());
    if (!value.isObject())
      return fail(where, "is " + value.describe() + "; expected an object with the keys " +
                             join(known, ", "));
    for (const auto &[key, member] : value.getMembers()) {
      const Field *field = llvm::find_if(fields, [&](const Field &f) { return f.key == key; });
      if (field == fields.end())
        return fail(where, "has the unknown key \"" + key + "\"" + suggestKey(key, known));
      if (Error error = field->read(member, append(where, key)))
        return error;
    }
    for (const Field &field : fields)
      if (field.isRequired && !value.get(field.key))
        return fail(where, "lacks the key \"" + field.key + "\"");
    return Error::success();
  }

  static std::string append(StringRef where, StringRef key) {
    return (where.empty() ? key : where + "." + key).str();
  }

  ReadValue readText(std::string &out) {
    return [this, &out](JsonValue value, StringRef where) -> Error {
      std::optional<std::string> text = value.getAsString();
      if (!text || text->empty())
        return fail(where, "is " + value.describe() + "; expected a string that is not empty");
      out = *text;
      return Error::success();
    };
  }
  ReadValue readTarget(std::string &out) {
    return [this, &out](JsonValue value, StringRef where) -> Error {
      out = value.getAsString().value_or("");
      return isTargetName(out) ? Error::success()
                               : fail(where, "is " + value.describe() + "; expected " +
                                                 kTargetNames + ", as in --target");
    };
  }
  ReadValue readNumber(double &out, double least, double most) {
    return [this, &out, least, most](JsonValue value, StringRef where) -> Error {
      std::optional<double> number = value.getAsNumber();
      if (!number || *number < least || *number > most)
        return fail(where, formatv("is {0}; expected a number from {1} to {2}", value.describe(),
                                   json::Value(least), json::Value(most)));
      out = *number;
      return Error::success();
    };
  }
  ReadValue readCount(int64_t &out, int64_t most) {
    return [this, &out, most](JsonValue value, StringRef where) -> Error {
      std::optional<int64_t> number = value.getAsInteger();
      if (!number || *number < 1 || *number > most)
        return fail(where, formatv("is {0}; expected a whole number from 1 to {1}",
                                   value.describe(), most));
      out = *number;
      return Error::success();
    };
  }
  ReadValue readQuantity(double &out, Unit unit, bool isPositive = true) {
    return [this, &out, unit, isPositive](JsonValue value, StringRef where) -> Error {
      std::optional<std::string> text = value.getAsString();
      std::optional<double> number = text ? parseQuantity(*text, unit) : std::nullopt;
      if (!number || (isPositive && *number == 0))
        return fail(where,
                    formatv("is {0}; expected {1}, such as {2}", value.describe(),
                            isPositive ? "a positive quantity" : "a quantity", getExample(unit)));
      out = *number;
      return Error::success();
    };
  }

  Error readDevice(JsonValue value, StringRef where, Device &device) {
    auto matmul = [&](JsonValue member, StringRef key) { return readMatmuls(member, key, device); };
    if (Error error = readObject(
            value, where,
            {{"target", true, readTarget(device.target)},
             {"memory", true, readQuantity(device.memory, Unit::Bytes)},
             {"reserve", false, readQuantity(device.reserve, Unit::Bytes, false)},
             {"memory_bandwidth", true, readQuantity(device.memoryBandwidth, Unit::BytesPerSecond)},
             {"launch", true, readQuantity(device.launch, Unit::Seconds, false)},
             {"host_bandwidth", true, readQuantity(device.hostBandwidth, Unit::BytesPerSecond)},
             {"elementwise_efficiency", false, readNumber(device.elementwiseEfficiency, 0.01, 1)},
             {"attention_forward", false, readNumber(device.attentionForward, 0.01, 2)},
             {"attention_backward", false, readNumber(device.attentionBackward, 0.01, 2)},
             {"matmul", true, matmul}}))
      return error;
    if (device.reserve >= device.memory)
      return fail(where, "reserves all of its memory: \"reserve\" must be less than \"memory\"");
    return Error::success();
  }

  Error readMatmuls(JsonValue value, StringRef where, Device &device) {
    static constexpr StringLiteral kTypes[] = {"f32", "bf16", "f16", "f8"};
    std::vector<Field> fields;
    for (StringRef type : kTypes)
      fields.push_back({type, type == "f32", [&, type](JsonValue member, StringRef key) {
                          return readRate(member, key, device.matmul[type.str()]);
                        }});
    return readObject(value, where, fields);
  }

  Error readRate(JsonValue value, StringRef where, MatmulRate &rate) {
    auto efficiency = [&](JsonValue member, StringRef key) {
      return readEfficiency(member, key, rate.efficiency);
    };
    return readObject(value, where,
                      {{"peak", true, readQuantity(rate.peak, Unit::FlopsPerSecond)},
                       {"efficiency", false, efficiency}});
  }

  Error readEfficiency(JsonValue value, StringRef where, std::vector<EfficiencyPoint> &points) {
    for (JsonValue pair : value.getElements()) {
      std::vector<JsonValue> entries = pair.getElements();
      std::optional<double> flops = entries.size() == 2 ? entries[0].getAsNumber() : std::nullopt;
      std::optional<double> share = entries.size() == 2 ? entries[1].getAsNumber() : std::nullopt;
      bool ascends = flops && *flops > (points.empty() ? 0 : points.back().flops);
      if (!ascends || !share || *share <= 0 || *share > 1)
        return fail(where, "has the entry " + pair.format() +
                               "; expected [FLOPS, SHARE] with positive, ascending flops and a "
                               "share above 0 and at most 1, such as [1e11, 0.62]");
      points.push_back({*flops, *share});
    }
    if (!points.empty())
      return Error::success();
    return fail(where, "is " + value.describe() +
                           "; expected a list of [FLOPS, SHARE], such as [[1e11, 0.62]]");
  }

  Error readTiers(JsonValue value, StringRef where, std::vector<Tier> &tiers) {
    std::vector<JsonValue> elements = value.getElements();
    for (auto [i, element] : llvm::enumerate(elements)) {
      std::string key = formatv("{0}[{1}]", where, i);
      Tier tier;
      if (Error error =
              readObject(element, key,
                         {{"name", true, readText(tier.name)},
                          {"ranks", false, readCount(tier.ranks, int64_t(1) << 40)},
                          {"bandwidth", true, readQuantity(tier.bandwidth, Unit::BytesPerSecond)},
                          {"latency", true, readQuantity(tier.latency, Unit::Seconds, false)}}))
        return error;
      if (Error error = checkNesting(key, tier, tiers, i + 1 == elements.size()))
        return error;
      tiers.push_back(std::move(tier));
    }
    if (!tiers.empty())
      return Error::success();
    return fail(where,
                "is " + value.describe() +
                    "; expected a list of at least one tier, such as {\"name\": \"network\", "
                    "\"bandwidth\": \"43GB/s\", \"latency\": \"10us\"}");
  }

  /// Fails unless each island of a tier consists of two or more complete islands of the tier
  /// inside it.
  Error checkNesting(StringRef where, const Tier &tier, ArrayRef<Tier> before, bool isLast) {
    if (tier.ranks == 0)
      return isLast ? Error::success()
                    : fail(where, "lacks the key \"ranks\", which only the last tier may omit");
    if (before.empty() ||
        (tier.ranks > before.back().ranks && tier.ranks % before.back().ranks == 0))
      return Error::success();
    return fail(where,
                formatv("has {0} ranks per island; expected a multiple of the {1} ranks of the "
                        "tier \"{2}\" inside it, at least {3}",
                        tier.ranks, before.back().ranks, before.back().name,
                        2 * before.back().ranks));
  }

  Error readMeasured(JsonValue value, StringRef where, Cluster &cluster) {
    static constexpr StringLiteral kKinds[] = {"all_reduce", "all_gather", "reduce_scatter",
                                               "all_to_all", "permute"};
    std::vector<Field> fields;
    for (StringRef kind : kKinds)
      fields.push_back({kind, false, [&, kind](JsonValue member, StringRef key) {
                          return readSamples(member, key, cluster.measured[kind.str()]);
                        }});
    return readObject(value, where, fields);
  }

  Error readSamples(JsonValue value, StringRef where, std::vector<MeasuredCollective> &samples) {
    for (JsonValue element : value.getElements()) {
      std::vector<JsonValue> entries = element.getElements();
      if (entries.size() == 3) {
        std::optional<int64_t> ranks = entries[0].getAsInteger();
        auto bytes = parseQuantity(entries[1].getAsString().value_or(""), Unit::Bytes);
        auto seconds = parseQuantity(entries[2].getAsString().value_or(""), Unit::Seconds);
        if (ranks && *ranks > 1 && bytes && *bytes > 0 && seconds && *seconds > 0) {
          samples.push_back({*ranks, *bytes, *seconds});
          continue;
        }
      }
      return fail(where, "has the entry " + element.format() +
                             "; expected [RANKS, BYTES, SECONDS], such as [8, \"1MB\", \"79us\"]");
    }
    llvm::sort(samples, [](const MeasuredCollective &a, const MeasuredCollective &b) {
      return std::tie(a.ranks, a.bytes) < std::tie(b.ranks, b.bytes);
    });
    if (samples.empty())
      return fail(where, "is " + value.describe() +
                             "; expected a list of [RANKS, BYTES, SECONDS], such as "
                             "[[8, \"1MB\", \"79us\"]]");
    return checkGrowth(samples, where);
  }

  /// Fails if a larger message takes less time than a smaller one on the same number of ranks, and
  /// the difference exceeds the noise of a measurement.
  Error checkGrowth(ArrayRef<MeasuredCollective> samples, StringRef where) {
    constexpr double kNoise = 0.1;
    const MeasuredCollective *longest = nullptr;
    for (const MeasuredCollective &each : samples) {
      if (longest && longest->ranks == each.ranks && each.seconds < (1 - kNoise) * longest->seconds)
        return fail(where,
                    formatv("has {0} for {1} bytes, but {2} for {3} bytes on {4} ranks; "
                            "expected times that grow with the bytes, except for 10 % of "
                            "noise",
                            printSeconds(each.seconds), int64_t(each.bytes),
                            printSeconds(longest->seconds), int64_t(longest->bytes), each.ranks));
      if (!longest || longest->ranks != each.ranks || each.seconds > longest->seconds)
        longest = &each;
    }
    return Error::success();
  }

  std::string path;
};

} // namespace

Expected<Cluster> readCluster(StringRef text, StringRef path) { return Reader(path).read(text); }

/// Reads the cluster of a file.
static Expected<Cluster> readClusterFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(path + " cannot be read: " + buffer.getError().message());
  return readCluster((*buffer)->getBuffer(), path);
}

/// Splits "h100-sxm:64" and "my.json:64" into the name and the number of ranks. The second part is
/// empty if `given` has no number.
static std::pair<StringRef, StringRef> splitRanks(StringRef given) {
  auto [name, size] = given.rsplit(':');
  bool hasRanks = given.contains(':') && !given.ends_with(".json");
  return hasRanks ? std::pair(name, size) : std::pair(given, StringRef());
}

std::optional<std::string> findClusterFile(StringRef given) {
  StringRef name = splitRanks(given).first;
  return name.ends_with(".json") ? std::optional(name.str()) : std::nullopt;
}

static Expected<Cluster> readNamedCluster(StringRef name) {
  if (name.ends_with(".json"))
    return readClusterFile(name);
  if (std::optional<StringRef> text = findPreset(name))
    return readCluster(*text, name);
  return createStringError("unknown cluster \"" + name + "\"; the presets are " +
                           joinQuoted(getPresets(), "and") +
                           "; for a cluster of your own, specify a file NAME.json");
}

Expected<SizedCluster> findCluster(StringRef given) {
  auto [name, size] = splitRanks(given);
  Expected<Cluster> cluster = readNamedCluster(name);
  if (!cluster)
    return cluster.takeError();
  int64_t ranks = 0;
  if (name.size() < given.size() && (size.getAsInteger(10, ranks) || ranks < 1))
    return createStringError("\"" + size + "\" is not a number of ranks; example: " + name + ":64");
  std::optional<int64_t> most = cluster->getMostRanks();
  if (most && ranks > *most)
    return createStringError(formatv("{0} has at most {1} ranks, not {2}", name, *most, ranks));
  return SizedCluster{std::move(*cluster), ranks ? std::optional(ranks) : std::nullopt};
}

} // namespace parashard::costs
