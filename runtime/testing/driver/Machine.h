// The machine that the fake plays: its devices, what lives on them, and the lock over all.
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

/// A device is its own (primary) context.
struct Device {
  int ordinal = 0;
  unsigned retained = 0;
  uint64_t used = 0;    ///< bytes of its memory
  CUresult error = 0;   ///< what synchronising calls return from now on
  bool dead = false;    ///< an operation failed: no other runs
  unsigned streams = 0; ///< how many were ever opened, for their names
};

/// All state, behind one lock: nothing here is fast, and the order of things stays plain.
struct Machine {
  std::mutex mutex;
  bool initialised = false;
  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  Memory memory;
  Order order;
  Handles<Stream> streams;
  std::vector<std::weak_ptr<Stream>> opened; ///< also those whose handle is gone
  Handles<Event> events;
  Handles<Graph> graphs;
  Handles<GraphExec> execs;
  Handles<Module> modules;
  Handles<Function> functions;
  std::vector<std::shared_ptr<Capture>> captures; ///< that have begun and not ended
  uint64_t waits = 0;                             ///< calls of cuStreamWaitEvent
  unsigned hostThreads = 0;
  Clock hostsKnow;                      ///< what some host thread knows
  std::map<const void *, Clock> tokens; ///< of psrt_fake_release
  std::FILE *log = nullptr;

  /// Reads the settings, unless a context is in use.
  void initialise();
  bool isDevice(const void *context) const;
  /// The device's streams whose threads run.
  std::vector<StreamRef> streamsOf(const Device *device) const;
  /// A line of the log.
  void note(const Stream &stream, const Operation &operation);
  void note(const Stream &stream, const std::string &text);
};

/// The one machine of the process, as libcuda has one. It is never destroyed: threads of streams
/// may outlive main.
Machine &machine();

} // namespace psrt::fake

#endif
