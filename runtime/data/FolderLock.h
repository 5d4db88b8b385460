// Implements the lock of the folder of --save: only one run at a time saves to a folder.
#ifndef PSRT_DATA_FOLDERLOCK_H
#define PSRT_DATA_FOLDERLOCK_H

#include "runtime/core/Status.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace psrt {

/// How often the holder renews its lock, and how long another host waits for a renewal.
struct LockTimes {
  std::chrono::milliseconds beat{2000}, watch{7000};
};

/// Thrown if another run holds the lock. The message begins with `--save`.
class FolderInUse : public Error {
public:
  using Error::Error;
};

/// Locks a folder. The file `.lock` in the folder is locked by flock, and records the holder's
/// host, process and start time. If the holder dies, the kernel releases the flock, and the next
/// run replaces the file. flock may not work across hosts that share a file system. The holder
/// therefore updates the file's time every `beat`. Another host replaces the file if its time does
/// not change for `watch`.
class FolderLock {
public:
  /// Creates the folder if it does not exist. If another run holds the lock, throws FolderInUse
  /// (BadArgument) with a description of the holder. Fails with BadInput if the folder is not
  /// writable.
  explicit FolderLock(const std::string &folder, LockTimes times = {});
  /// Removes the lock file. Also removes the folder if this object has created it and it is empty.
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  /// Throws FolderInUse if another run has acquired the lock in the meantime. Reasons: this process
  /// was suspended for too long, or someone removed the lock file. Acquires the lock again if it is
  /// free.
  void check();
  /// Returns the contents of a folder's lock file, or "" if there is none.
  static std::string readRecord(const std::string &folder);

private:
  void acquire();
  bool tryAcquire();
  bool create();
  bool removeStale(int descriptor);
  bool isSilent();
  void holdIt(int descriptor);
  [[noreturn]] void refuse(const std::string &record) const;
  [[noreturn]] void failToLock() const;
  void beat();
  void release();

  std::string folder, path;
  LockTimes times;
  bool madeFolder = false;
  int descriptor = -1;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable wake;
  bool ends = false;
};

} // namespace psrt

#endif
