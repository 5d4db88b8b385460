// What the environment says about the fake; read at each cuInit while no context is in use.
#ifndef PSRT_TESTING_DRIVER_SETTINGS_H
#define PSRT_TESTING_DRIVER_SETTINGS_H

#include <cstdint>
#include <string>

namespace psrt::fake {

struct Settings {
  uint64_t memory = uint64_t(64) << 30; ///< $PSRT_FAKE_MEMORY: bytes of each device
  int devices = 1;                      ///< $PSRT_FAKE_DEVICES
  int major = 9, minor = 0;             ///< $PSRT_FAKE_CAPABILITY, as "9.0"
  int version = 13000;                  ///< $PSRT_FAKE_VERSION: of the driver, 12.4 is 12040
  bool refusesGraphs = false;           ///< $PSRT_FAKE_GRAPHS=0: none can be made
  uint64_t drop = 0;                    ///< $PSRT_FAKE_DROP: the wait to leave out, from 1
  unsigned delay = 0;      ///< $PSRT_FAKE_DELAY: up to so many microseconds before each operation
  unsigned kernelTime = 0; ///< $PSRT_FAKE_KERNEL_TIME: microseconds that each kernel takes more
  bool strict = false;     ///< $PSRT_FAKE_STRICT=1: a kernel that nobody announced is an error
  bool oneHost = false;    ///< $PSRT_FAKE_HOSTS=one: what a host thread knows, all know
  std::string log;         ///< $PSRT_FAKE_LOG: a file that gets a line an operation
};

Settings readSettings();

} // namespace psrt::fake

#endif
