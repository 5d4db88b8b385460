// A GPU as this process uses it, and what lives on it: memory, streams, events; all are given back
// with their objects.
#ifndef PSRT_DEVICE_CUDA_GPU_H
#define PSRT_DEVICE_CUDA_GPU_H

#include "runtime/device/cuda/Driver.h"
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace psrt::cuda {

/// One GPU's primary context. Calls of the driver are about the context that the calling thread has
/// entered.
class Gpu {
public:
  Gpu(DriverRef driver, int ordinal);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  void enter() const;
  /// For destructors, which tell nobody.
  void tryToEnter() const noexcept { driver->ctxSetCurrent(context); }
  const Driver &getDriver() const { return *driver; }
  void check(CUresult result, const char *what, const char *file = __builtin_FILE(),
             int line = __builtin_LINE()) const {
    driver->check(result, what, file, line);
  }
  int getOrdinal() const { return ordinal; }
  const std::string &getName() const { return name; }
  /// Compute capability: 90 for 9.0.
  int getArchitecture() const { return architecture; }
  /// Multiprocessors.
  int getProcessors() const { return processors; }
  /// Bytes that nobody uses.
  size_t freeMemory() const;

  /// Called again and again while the host waits for this GPU; it throws what ends the waiting.
  /// Null: nobody is asked.
  void setWatch(std::function<void()> function) const { watch = std::move(function); }
  /// In the watch: whether this waiting is one that it was not called for before.
  bool isWaitNew() const { return std::exchange(waitIsNew, false); }
  /// Waits until `isOver`, a question to the driver, says so, where there is a watch; else calls
  /// `wait`.
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

/// Memory of the GPU; its content is undefined.
class DeviceMemory {
public:
  /// `what` it is for, in messages.
  DeviceMemory(GpuRef gpu, size_t bytes, const char *what);
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

/// Memory of the host that the GPU copies from and to by itself.
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
  /// The host waits for all that is in it, and learns of its errors.
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
  /// What is enqueued in the stream from now on waits for it.
  void holdUp(const Stream &stream) const;

private:
  GpuRef gpu;
  CUevent event = nullptr;
};

} // namespace psrt::cuda

#endif
