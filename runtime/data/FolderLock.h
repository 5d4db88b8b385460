// Makes sure that only one run at a time saves to a folder.
#ifndef PSRT_DATA_FOLDERLOCK_H
#define PSRT_DATA_FOLDERLOCK_H

#include "runtime/core/Status.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace psrt {

/// How often a holder renews its lock, and how long another host watches for a renewal.
struct LockTimes {
  std::chrono::milliseconds beat{2000}, watch{7000};
};

/// Thrown if another run holds the folder. The message begins with `--save`, the flag that every
/// locked folder comes from.
class FolderInUse : public Error {
public:
  using Error::Error;
};

/// Holds a folder by its file `.lock`, which is locked by flock and records the holder's host,
/// process and start time. The kernel releases flock when a process dies; the lock file is then
/// stale and the next run replaces it immediately. flock may not work across hosts that share a
/// file system. The holder therefore renews the file's time continuously, and another host treats
/// the lock as stale only if it is not renewed for a while.
class FolderLock {
public:
  /// Creates the folder if it does not exist. Throws FolderInUse (BadArgument), naming the holder,
  /// if another run holds the folder, and fails with BadInput if the folder is not writable.
  explicit FolderLock(const std::string &folder, LockTimes times = {});
  /// Removes the lock file, and the folder if the lock created it and it is empty.
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  /// Throws FolderInUse if another run has taken the folder since, because this process was
  /// stopped for long or someone removed the lock file. Takes the lock again if nobody holds it.
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
