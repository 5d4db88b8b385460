// One run at a time saves to a folder.
#ifndef PSRT_DATA_FOLDERLOCK_H
#define PSRT_DATA_FOLDERLOCK_H

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace psrt {

/// How often a holder shows that it lives, and how long another host looks for that.
struct LockTimes {
  std::chrono::milliseconds beat{2000}, watch{7000};
};

/// Holds a folder by the file `.lock` in it: flock, and in the file host, process and start time of
/// the holder. The kernel releases flock when a process dies, so that its lock file is stale and
/// the next run replaces it at once. flock may not reach other hosts that share the file system.
/// Therefore a lock file of another host is stale only if nobody touches it for a while; its holder
/// touches it all the time.
class FolderLock {
public:
  /// Makes the folder where there is none. Fails with BadArgument, naming the holder, where another
  /// run holds it, and with BadInput where the folder cannot be written.
  explicit FolderLock(const std::string &folder, LockTimes times = {});
  /// Removes the lock file, and the folder if the lock made it and nothing is in it.
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  /// Fails with BadArgument where another run has taken the folder since: this process was stopped
  /// for long, or someone removed the lock file. Holds it again where nobody has taken it.
  void check();
  /// Returns what the lock file of a folder says of its holder; empty where there is none.
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
