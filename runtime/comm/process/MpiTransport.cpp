// Loads MPI and exchanges data over it.
#include "runtime/comm/process/Mpi.h"
#include "runtime/comm/process/Transport.h"
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

/// The path of the runtime folder from which ps-compile has linked the program. The symbol is
/// undefined in programs that ps-compile has not linked.
extern "C" __attribute__((weak)) const char psrt_runtime_folder[];

namespace psrt {

constexpr const char *kLibrary = "libpsrt_comm_mpi.so";

/// Returns whether only root, this user and this user's group can write the file. Without this
/// check, a program in a shared folder would load a library that another user placed there.
static bool isTrusted(const std::string &path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return false;
  bool isOurs = info.st_uid == 0 || info.st_uid == geteuid();
  bool othersMayWrite =
      (info.st_mode & S_IWOTH) || ((info.st_mode & S_IWGRP) && info.st_gid != getegid());
  return isOurs && !othersMayWrite;
}

/// Returns the folder of the executable or library (libpsrt.so) that contains this code, or "".
static std::filesystem::path findOwnFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&findOwnFolder), &info) || !info.dli_fname)
    return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

/// Returns the library of PSRT_COMM_MPI, else one next to the program or to libpsrt.so, in the
/// runtime folder, or on the system's search path.
static std::string findLibrary() {
  if (const char *name = std::getenv("PSRT_COMM_MPI"))
    return name;
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::filesystem::path> folders = {program.parent_path(), findOwnFolder()};
  if (psrt_runtime_folder)
    folders.emplace_back(psrt_runtime_folder);
  for (const std::filesystem::path &folder : folders)
    if (isTrusted(folder / kLibrary))
      return folder / kLibrary;
  return kLibrary;
}

Mpi::Mpi() {
  void *handle = dlopen(findLibrary().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    PSRT_FAIL(BadArgument,
              "--comm mpi cannot load MPI: %s; install MPI (Debian: libopenmpi3 openmpi-bin), set "
              "PSRT_COMM_MPI to the path of libpsrt_comm_mpi.so, or use --comm tcp",
              dlerror());
  calls = static_cast<const psrt_mpi_calls *>(dlsym(handle, "psrt_mpi"));
  if (!calls || calls->size != sizeof(psrt_mpi_calls))
    PSRT_FAIL(BadArgument, "libpsrt_comm_mpi.so has another version than this program; rebuild "
                           "Parashard, and compile the program again");
  check(calls->start(&rank, &size, &threads), "starting");
}

namespace {

class MpiTransport : public Transport {
public:
  MpiTransport(HeartbeatMonitor &monitor, std::shared_ptr<Mpi> mpi, int channel, bool dedicated)
      : monitor(monitor), mpi(std::move(mpi)), channel(channel), spins(channel > 0 ? 0
                                                                       : dedicated ? 20000
                                                                                   : 100) {}

  void run(const Exchange &exchange, const std::string &activity) override {
    const psrt_mpi_calls &calls = mpi->get();
    for (const Exchange::Transfer &transfer : exchange.transfers)
      for (const Span &span : transfer.in)
        mpi->check(calls.receive(channel, transfer.peer, span.data, span.bytes), activity);
    for (const Exchange::Transfer &transfer : exchange.transfers)
      for (const Span &span : transfer.out)
        mpi->check(calls.send(channel, transfer.peer, span.data, span.bytes), activity);
    Patience patience(monitor, activity);
    int done = 0;
    for (int64_t idle = 1;; ++idle) {
      check(calls.test(channel, &done), exchange, activity);
      if (done)
        return;
      if (idle > spins || idle % 1024 == 0)
        patience.check(exchange.transfers.front().peer);
      // Sleep instead of yielding: another process could keep a yielded core for a whole time
      // slice.
      if (idle > spins)
        std::this_thread::sleep_for(std::chrono::microseconds(channel > 0 ? 100 : 20));
    }
  }

private:
  /// Fails if `code` is an error. If rank 0 has detected a dead rank, the error names the dead
  /// rank.
  void check(int code, const Exchange &exchange, const std::string &activity) {
    if (code)
      monitor.failLost(exchange.transfers.front().peer, activity, mpi->get().error());
  }

  HeartbeatMonitor &monitor;
  std::shared_ptr<Mpi> mpi;
  int channel;
  int64_t spins;
};

/// Opens channels. A channel is an MPI tag, so it needs no connection.
class MpiTransports : public Transports {
public:
  MpiTransports(HeartbeatMonitor &monitor, std::shared_ptr<Mpi> mpi, bool dedicated)
      : monitor(monitor), mpi(std::move(mpi)), dedicated(dedicated) {}

  std::unique_ptr<Transport> open(int channel, const std::vector<int> &) override {
    mpi->check(mpi->get().open(channel), "opening a channel");
    return std::make_unique<MpiTransport>(monitor, mpi, channel, dedicated);
  }
  bool hasThreads() const override { return mpi->hasThreads(); }

private:
  HeartbeatMonitor &monitor;
  std::shared_ptr<Mpi> mpi;
  bool dedicated;
};

} // namespace

std::unique_ptr<Transports> makeMpiTransports(HeartbeatMonitor &monitor, std::shared_ptr<Mpi> mpi,
                                              bool dedicated) {
  return std::make_unique<MpiTransports>(monitor, std::move(mpi), dedicated);
}

} // namespace psrt
