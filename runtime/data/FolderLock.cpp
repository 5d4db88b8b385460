// Takes, renews and releases the lock of a folder.
#include "runtime/data/FolderLock.h"
#include "runtime/core/Status.h"
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace psrt {
namespace {

using Json = nlohmann::json;

/// The process that holds a lock, as recorded in the lock file.
struct Holder {
  std::string host;  ///< host name
  std::string boot;  ///< boot id of the kernel
  std::string space; ///< PID namespace
  long long pid = 0;
  std::string start; ///< start time of the process, in clock ticks since boot
  std::string since; ///< time at which the process took the lock, UTC
};

std::string readWord(const std::string &path) {
  std::ifstream stream(path);
  std::string word;
  stream >> word;
  return word;
}

/// Returns the start time of a process in ticks since boot, or "" if it does not exist. The time is
/// field 22 of /proc/PID/stat; the name in field 2 may contain spaces and parentheses.
std::string findStart(long long pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string text(std::istreambuf_iterator<char>(stream), {});
  size_t name = text.rfind(')');
  if (name == std::string::npos)
    return "";
  std::istringstream fields(text.substr(name + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i)
    fields >> field;
  return field;
}

Holder describeThisProcess() {
  Holder self;
  char host[HOST_NAME_MAX + 1] = "";
  gethostname(host, sizeof(host) - 1);
  self.host = host;
  self.boot = readWord("/proc/sys/kernel/random/boot_id");
  std::error_code ignored;
  self.space = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  self.pid = getpid();
  self.start = findStart(self.pid);
  char time[64];
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S UTC", &utc);
  self.since = time;
  return self;
}

std::string toText(const Holder &holder) {
  Json json{{"host", holder.host}, {"boot", holder.boot},   {"pid_namespace", holder.space},
            {"pid", holder.pid},   {"start", holder.start}, {"since", holder.since}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// Parses the contents of a lock file. Returns nullopt if the file is incomplete or another kind of
/// file.
std::optional<Holder> parseHolder(const std::string &text) {
  Json json = Json::parse(text, nullptr, false);
  Holder holder;
  try {
    holder = {json.at("host"), json.at("boot"),  json.at("pid_namespace"),
              json.at("pid"),  json.at("start"), json.at("since")};
  } catch (const nlohmann::json::exception &) {
    return std::nullopt;
  }
  return holder;
}

std::string readAll(int descriptor) {
  char buffer[4096];
  ssize_t got = pread(descriptor, buffer, sizeof(buffer), 0);
  return std::string(buffer, got > 0 ? size_t(got) : 0);
}

std::string describe(const std::optional<Holder> &holder) {
  if (!holder)
    return "the lock file does not name its holder";
  return format("process %lld on host \"%s\", since %s", holder->pid, holder->host.c_str(),
                holder->since.c_str());
}

bool isAlive(const Holder &holder) {
  return !holder.start.empty() && findStart(holder.pid) == holder.start;
}

enum class Flock { Taken, Held, Unsupported };

Flock tryFlock(int descriptor) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    return Flock::Taken;
  return errno == EWOULDBLOCK || errno == EINTR ? Flock::Held : Flock::Unsupported;
}

/// Returns whether the path still refers to the open file `descriptor`.
bool isSameFile(const std::string &path, int descriptor) {
  struct stat named, opened;
  return lstat(path.c_str(), &named) == 0 && fstat(descriptor, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

} // namespace

FolderLock::FolderLock(const std::string &folder, LockTimes times)
    : folder(folder), path(folder + "/.lock"), times(times) {
  std::error_code error;
  madeFolder = std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder, error))
    fail(findPathFault(error ? error.value() : EEXIST), __FILE__, __LINE__,
         format("cannot create the folder \"%s\": %s", folder.c_str(),
                error ? error.message().c_str() : "a file of that name exists"));
  acquire();
  thread = std::thread([this] { beat(); });
}

FolderLock::~FolderLock() {
  {
    std::lock_guard<std::mutex> guard(mutex);
    ends = true;
  }
  wake.notify_all();
  thread.join();
  release();
}

void FolderLock::acquire() {
  // An attempt waits 5 ms if another process has locked the file but not written its record yet.
  constexpr int kMaxAttempts = 1000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt)
    if (tryAcquire())
      return;
  refuse("");
}

/// Makes one attempt to take the lock. Returns false if another process has changed the file
/// meanwhile.
bool FolderLock::tryAcquire() {
  if (create())
    return true;
  int found = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (found < 0 && (errno == EACCES || errno == EROFS)) // a file of another user
    found = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (found < 0 && errno == ENOENT)
    return false;
  if (found < 0)
    failToLock();
  try {
    bool isRemoved = removeStale(found);
    close(found);
    return isRemoved && create();
  } catch (...) {
    close(found);
    throw;
  }
}

/// Creates and locks the lock file. Returns false if the file exists.
bool FolderLock::create() {
  int created = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (created < 0 && errno == EEXIST)
    return false;
  if (created < 0)
    failToLock();
  // Another process may already have locked and removed the new file.
  if (tryFlock(created) == Flock::Held || !isSameFile(path, created)) {
    close(created);
    return false;
  }
  std::string text = toText(describeThisProcess());
  if (pwrite(created, text.data(), text.size(), 0) != ssize_t(text.size())) {
    int why = errno;
    unlink(path.c_str());
    close(created);
    errno = why;
    failToLock();
  }
  holdIt(created);
  return true;
}

void FolderLock::holdIt(int created) {
  std::lock_guard<std::mutex> guard(mutex);
  if (descriptor >= 0)
    close(descriptor);
  descriptor = created;
}

/// Removes the open lock file `found` if its holder is dead. Fails if the holder is alive. Returns
/// false if another process has changed the file meanwhile.
bool FolderLock::removeStale(int found) {
  struct stat info;
  if (fstat(found, &info) == 0 && !S_ISREG(info.st_mode)) {
    errno = EINVAL;
    failToLock();
  }
  Flock flocked = tryFlock(found);
  std::string text = readAll(found);
  std::optional<Holder> holder = parseHolder(text);
  if (flocked == Flock::Held && !holder) { // the holder is about to write its record
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return false;
  }
  if (flocked == Flock::Held)
    refuse(text);
  Holder self = describeThisProcess();
  // Within one kernel, flock is reliable. Across hosts, only the modification time of the file is
  // reliable.
  bool isOfThisKernel = holder && holder->boot == self.boot;
  bool isKnown = isOfThisKernel && (flocked == Flock::Taken || holder->space == self.space);
  if (isKnown && flocked == Flock::Unsupported && isAlive(*holder))
    refuse(text);
  bool isWatched = holder ? !isKnown : flocked == Flock::Unsupported;
  if (isWatched && !isSilent())
    refuse(text);
  if (!isSameFile(path, found))
    return false;
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    failToLock();
  return true;
}

/// Returns whether a holder on another host no longer updates the time of the lock file.
bool FolderLock::isSilent() {
  auto look = [&] { // reopen the file, so that NFS asks its server for the time
    struct stat info{};
    int again = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (again >= 0) {
      fstat(again, &info);
      close(again);
    }
    return std::tuple(info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  };
  auto first = look(), last = first;
  auto end = std::chrono::steady_clock::now() + times.watch;
  while (last == first && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(times.watch / 14);
    last = look();
  }
  return last == first;
}

void FolderLock::refuse(const std::string &record) const {
  std::optional<Holder> holder = parseHolder(record);
  Status status;
  status.code = StatusCode::BadArgument;
  status.message =
      format("--save \"%s\": another run saves to this folder: %s; wait until it ends, "
             "or give another folder",
             folder.c_str(), describe(holder).c_str());
  throw FolderInUse(std::move(status));
}

void FolderLock::failToLock() const {
  int reason = errno;
  fail(findPathFault(reason), __FILE__, __LINE__,
       format("cannot lock the folder \"%s\" with its file \".lock\": %s", folder.c_str(),
              std::strerror(reason)));
}

void FolderLock::check() {
  if (isSameFile(path, descriptor))
    return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  acquire();
}

std::string FolderLock::readRecord(const std::string &folder) {
  std::ifstream stream(folder + "/.lock");
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void FolderLock::beat() {
  std::unique_lock<std::mutex> guard(mutex);
  while (!wake.wait_for(guard, times.beat, [&] { return ends; }))
    futimens(descriptor, nullptr);
}

void FolderLock::release() {
  if (isSameFile(path, descriptor))
    unlink(path.c_str());
  close(descriptor);
  if (madeFolder)
    rmdir(folder.c_str()); // fails if the folder is not empty
}

} // namespace psrt
