// What the environment says about the stand-in; read at each cuInit while no context is in use.
#ifndef PSRT_DEVICE_CUDA_STANDIN_SETTINGS_H
#define PSRT_DEVICE_CUDA_STANDIN_SETTINGS_H

#include <cstdint>
#include <string>

namespace psrt::standin {

struct Settings {
  uint64_t memory = uint64_t(64) << 30; ///< $PSRT_STANDIN_MEMORY: bytes of each device
  int devices = 1;                      ///< $PSRT_STANDIN_DEVICES
  int major = 9, minor = 0;             ///< $PSRT_STANDIN_CAPABILITY, as "9.0"
  int version = 13000;                  ///< $PSRT_STANDIN_VERSION: of the driver, 12.4 is 12040
  bool refusesGraphs = false;           ///< $PSRT_STANDIN_GRAPHS=0: none can be made
  uint64_t drop = 0;                    ///< $PSRT_STANDIN_DROP: the wait to leave out, from 1
  unsigned delay = 0; ///< $PSRT_STANDIN_DELAY: up to so many microseconds before each operation
  unsigned kernelTime = 0; ///< $PSRT_STANDIN_KERNEL_TIME: microseconds that each kernel takes more
  bool strict = false;     ///< $PSRT_STANDIN_STRICT=1: a kernel that nobody announced is an error
  bool oneHost = false;    ///< $PSRT_STANDIN_HOSTS=one: what a host thread knows, all know
  std::string log;         ///< $PSRT_STANDIN_LOG: a file that gets a line an operation
};

Settings readSettings();

} // namespace psrt::standin

#endif
