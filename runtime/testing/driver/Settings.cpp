// Reads the settings from the environment.
#include "runtime/testing/driver/Settings.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace psrt::fake {

static std::string variable(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

static uint64_t number(const char *name, uint64_t otherwise) {
  std::string text = variable(name);
  return text.empty() ? otherwise : std::strtoull(text.c_str(), nullptr, 0);
}

Settings readSettings() {
  Settings settings;
  settings.memory = number("PSRT_FAKE_MEMORY", settings.memory);
  settings.devices = int(std::min<uint64_t>(number("PSRT_FAKE_DEVICES", 1), 64));
  settings.version = int(number("PSRT_FAKE_VERSION", uint64_t(settings.version)));
  settings.refusesGraphs = variable("PSRT_FAKE_GRAPHS") == "0";
  settings.drop = number("PSRT_FAKE_DROP", 0);
  settings.delay = unsigned(number("PSRT_FAKE_DELAY", 0));
  settings.kernelTime = unsigned(number("PSRT_FAKE_KERNEL_TIME", 0));
  settings.strict = number("PSRT_FAKE_STRICT", 0) != 0;
  settings.oneHost = variable("PSRT_FAKE_HOSTS") == "one";
  settings.log = variable("PSRT_FAKE_LOG");
  std::sscanf(variable("PSRT_FAKE_CAPABILITY").c_str(), "%d.%d", &settings.major, &settings.minor);
  return settings;
}

} // namespace psrt::fake
