// Sets up the machine and writes its log.
#include "runtime/testing/driver/Machine.h"

namespace psrt::fake {

Machine &machine() {
  static Machine &only = *new Machine;
  return only;
}

void Machine::initialise() {
  for (const auto &device : devices)
    if (device->retained)
      return;
  settings = readSettings();
  waits = 0;
  while (int(devices.size()) < settings.devices) {
    devices.push_back(std::make_unique<Device>());
    devices.back()->ordinal = int(devices.size()) - 1;
  }
  if (log)
    std::fclose(log);
  log = settings.log.empty() ? nullptr : std::fopen(settings.log.c_str(), "a");
  if (!log && !settings.log.empty())
    complain("cannot write the log %s", settings.log.c_str());
  initialised = true;
}

bool Machine::isDevice(const void *context) const {
  for (const auto &device : devices)
    if (device.get() == context)
      return true;
  return false;
}

std::vector<StreamRef> Machine::streamsOf(const Device *device) const {
  std::vector<StreamRef> own;
  for (const auto &entry : opened)
    if (StreamRef stream = entry.lock(); stream && stream->device == device)
      own.push_back(std::move(stream));
  return own;
}

void Machine::logLine(const Stream &stream, const Operation &operation) const {
  if (!log)
    return;
  std::string text = std::string(operation.kind) + " " + operation.name;
  for (const Access &access : operation.accesses) {
    char range[64];
    std::snprintf(range, sizeof(range), " %c[0x%llx,0x%llx)", access.writes ? 'W' : 'R',
                  (unsigned long long)access.begin, (unsigned long long)access.end);
    text += range;
  }
  logLine(stream, text);
}

void Machine::logLine(const Stream &stream, const std::string &text) const {
  if (!log)
    return;
  std::fprintf(log, "%s: %s\n", stream.name.c_str(), text.c_str());
  std::fflush(log);
}

} // namespace psrt::fake
