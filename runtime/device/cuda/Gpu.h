// Wraps a GPU and its resources (memory, streams and events). Destructors release the resources.
#ifndef PSRT_DEVICE_CUDA_GPU_H
#define PSRT_DEVICE_CUDA_GPU_H

#include "runtime/device/cuda/Driver.h"
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace psrt::cuda {

/// One GPU's primary context. Driver calls refer to the context that the calling thread has
/// entered.
class Gpu {
public:
  Gpu(DriverRef driver, int ordinal);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  void enter() const;
  /// Enters the context and ignores errors, for destructors.
  void tryToEnter() const noexcept { driver->ctxSetCurrent(context); }
  const Driver &getDriver() const { return *driver; }
  void check(CUresult result, const char *action, const char *file = __builtin_FILE(),
             int line = __builtin_LINE()) const {
    driver->check(result, action, file, line);
  }
  int getOrdinal() const { return ordinal; }
  const std::string &getName() const { return name; }
  /// Returns the compute capability times 10, e.g. 90 for 9.0.
  int getArchitecture() const { return architecture; }
  /// Returns the number of multiprocessors.
  int getProcessors() const { return processors; }
  /// Returns the bytes of free GPU memory.
  size_t freeMemory() const { return queryMemory().first; }
  /// Returns the bytes of all GPU memory.
  size_t totalMemory() const { return queryMemory().second; }

  /// Sets a function that is called repeatedly while the host waits for this GPU. The function
  /// throws to end the wait. Null removes the function.
  void setWatch(std::function<void()> function) const { watch = std::move(function); }
  /// Returns true on the first call during a wait; called by the watch function.
  bool isWaitNew() const { return std::exchange(waitIsNew, false); }
  /// Calls `isOver`, which queries the driver, repeatedly until it returns true. Without a watch
  /// function, calls the blocking function `wait` instead.
  template <typename IsOver, typename Wait> void await(IsOver &&isOver, Wait &&wait) const {
    if (!watch)
      return wait();
    waitIsNew = true;
    for (int turn = 0; !isOver(); ++turn) {
      if (turn > 1000)
        std::this_thread::sleep_for(std::chrono::microseconds(turn > 10000 ? 1000 : 20));
      if (turn % 1000 == 999)
        watch();
    }
  }

private:
  /// Returns the bytes of free and of all GPU memory.
  std::pair<size_t, size_t> queryMemory() const;

  DriverRef driver;
  int ordinal;
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::string name;
  int architecture = 0, processors = 1;
  mutable std::function<void()> watch;
  mutable bool waitIsNew = false;
};

using GpuRef = std::shared_ptr<const Gpu>;

/// GPU memory with undefined initial content.
class DeviceMemory {
public:
  /// `purpose` completes "cannot allocate N bytes for ..." in messages.
  DeviceMemory(GpuRef gpu, size_t bytes, const char *purpose);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  CUdeviceptr get() const { return pointer; }
  size_t size() const { return bytes; }

private:
  GpuRef gpu;
  size_t bytes;
  CUdeviceptr pointer = 0;
};

/// Host memory that the GPU can copy from and to directly.
class PinnedMemory {
public:
  PinnedMemory(GpuRef gpu, size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory &) = delete;
  PinnedMemory &operator=(const PinnedMemory &) = delete;
  char *get() const { return static_cast<char *>(pointer); }
  size_t size() const { return bytes; }

private:
  GpuRef gpu;
  size_t bytes;
  void *pointer = nullptr;
};

class Stream {
public:
  explicit Stream(GpuRef gpu);
  ~Stream();
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  CUstream get() const { return stream; }
  const GpuRef &getGpu() const { return gpu; }
  /// Blocks the host until the stream's work is done. Throws if the work has failed.
  void synchronize() const;

private:
  GpuRef gpu;
  CUstream stream = nullptr;
};

using StreamRef = std::shared_ptr<const Stream>;

class Event {
public:
  explicit Event(GpuRef gpu, bool timed = false);
  ~Event();
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
  CUevent get() const { return event; }
  void record(const Stream &stream) const;
  bool isOver() const;
  void synchronize() const;
  /// Makes all work that is later enqueued in the stream wait for this event.
  void makeWait(const Stream &stream) const;

private:
  GpuRef gpu;
  CUevent event = nullptr;
};

} // namespace psrt::cuda

#endif
