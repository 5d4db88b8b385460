// Defines the fake driver's settings. cuInit reads them from the environment, unless a context is
// in use.
#ifndef PSRT_TESTING_DRIVER_SETTINGS_H
#define PSRT_TESTING_DRIVER_SETTINGS_H

#include <cstdint>
#include <string>

namespace psrt::fake {

struct Settings {
  uint64_t memory = uint64_t(64) << 30; ///< $PSRT_FAKE_MEMORY: bytes per device
  int devices = 1;                      ///< $PSRT_FAKE_DEVICES: number of devices
  int major = 9, minor = 0;             ///< $PSRT_FAKE_CAPABILITY, e.g. "9.0"
  int version = 13000;                  ///< $PSRT_FAKE_VERSION: driver version, e.g. 12040 for 12.4
  bool refusesGraphs = false;           ///< $PSRT_FAKE_GRAPHS=0: instantiating graphs fails
  uint64_t drop = 0;                    ///< $PSRT_FAKE_DROP: number of the wait to omit, from 1
  unsigned delay = 0; ///< $PSRT_FAKE_DELAY: maximum random delay per operation, in microseconds
  unsigned kernelTime = 0; ///< $PSRT_FAKE_KERNEL_TIME: extra time of each kernel, in microseconds
  /// $PSRT_FAKE_STRICT=1: a kernel whose accesses were not reported is an error, which the next
  /// synchronizing call returns.
  bool strict = false;
  bool oneHost = false; ///< $PSRT_FAKE_HOSTS=one: host threads share one clock
  std::string log;      ///< $PSRT_FAKE_LOG: log file with one line per operation
};

Settings readSettings();

} // namespace psrt::fake

#endif
