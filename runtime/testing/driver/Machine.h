// Defines the simulated machine: its devices, their resources and the lock that guards them.
#ifndef PSRT_TESTING_DRIVER_MACHINE_H
#define PSRT_TESTING_DRIVER_MACHINE_H

#include "runtime/testing/driver/Handles.h"
#include "runtime/testing/driver/Memory.h"
#include "runtime/testing/driver/Order.h"
#include "runtime/testing/driver/Settings.h"
#include "runtime/testing/driver/Streams.h"
#include <cstdio>
#include <map>
#include <mutex>

namespace psrt::fake {

struct Event;
struct Function;
struct Graph;
struct GraphExec;
struct Module;

/// A device, which is also its own (primary) context.
struct Device {
  int ordinal = 0;
  unsigned retained = 0;
  uint64_t used = 0;    ///< bytes of allocated memory
  CUresult error = 0;   ///< sticky error that synchronizing calls return
  bool dead = false;    ///< an operation failed, so no others run
  unsigned streams = 0; ///< number of streams opened so far, for their names
};

/// All state, guarded by one lock. Speed does not matter here, and one lock keeps the order of
/// calls simple.
struct Machine {
  std::mutex mutex;
  bool initialised = false;
  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  Memory memory;
  Order order;
  Handles<Stream> streams;
  std::vector<std::weak_ptr<Stream>> opened; ///< includes streams whose handle is destroyed
  Handles<Event> events;
  Handles<Graph> graphs;
  Handles<GraphExec> execs;
  Handles<Module> modules;
  Handles<Function> functions;
  std::vector<std::shared_ptr<Capture>> captures; ///< captures in progress
  uint64_t waits = 0;                             ///< number of calls of cuStreamWaitEvent
  unsigned hostThreads = 0;
  Clock hostsKnow;                      ///< maximum of the host threads' clocks
  std::map<const void *, Clock> tokens; ///< clocks passed to psrt_fake_release
  std::FILE *log = nullptr;

  /// Reads the settings, creates the devices and opens the log. Does nothing if a context is in
  /// use.
  void initialise();
  bool isDevice(const void *context) const;
  /// Returns the device's streams whose threads run.
  std::vector<StreamRef> streamsOf(const Device *device) const;
  /// Writes a line to the log.
  void logLine(const Stream &stream, const Operation &operation) const;
  void logLine(const Stream &stream, const std::string &text) const;
};

/// Returns the process's only machine. As in libcuda, the machine is never destroyed, because
/// threads of streams may outlive main.
Machine &machine();

} // namespace psrt::fake

#endif
