// Creates, writes and reads rendezvous files.
#include "runtime/comm/process/RendezvousFile.h"
#include "runtime/bootstrap/Acceptor.h"
#include "runtime/core/Status.h"
#include "runtime/core/StrictJson.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace psrt {

/// The JSON key that identifies a rendezvous file, and the version of the file format.
static constexpr const char *kKey = "parashard_rendezvous";
static constexpr int kVersion = 2;

std::vector<Candidate> RendezvousInfo::candidates() const {
  std::vector<Candidate> result;
  for (const auto &address : addresses)
    if (address[0])
      result.push_back({address, port});
  return result;
}

static std::string toHex(std::string_view bytes) {
  std::string text;
  for (unsigned char byte : bytes)
    text += format("%02x", byte);
  return text;
}

static JobKey parseSecret(const std::string &hex) {
  JobKey secret;
  size_t digits = hex.find_first_not_of("0123456789abcdef");
  if (digits != std::string::npos || hex.size() != 2 * secret.bytes.size())
    throw std::runtime_error("invalid secret");
  for (size_t i = 0; i < secret.bytes.size(); ++i)
    secret.bytes[i] = uint8_t(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  return secret;
}

JobKey RendezvousInfo::key() const {
  return makeJobKey(toHex(bytesOf(secret.bytes)) + jobSecret(), std::to_string(job));
}

std::string RendezvousInfo::describe() const {
  std::string result;
  for (const Candidate &candidate : candidates())
    result += (result.empty() ? "" : ", ") + candidate.address;
  return result + " port " + std::to_string(port);
}

static void addAddress(RendezvousInfo &info, const std::string &address) {
  for (auto &slot : info.addresses)
    if (!slot[0]) {
      std::snprintf(slot, sizeof(slot), "%s", address.c_str());
      return;
    }
}

RendezvousInfo makeRendezvousInfo(const Socket &listener) {
  RendezvousInfo info;
  Nonce drawn = drawNonce();
  std::memcpy(&info.job, drawn.data(), sizeof(info.job));
  info.secret = drawJobKey();
  info.port = portOf(listener);
  for (const std::string &address : ownAddresses())
    addAddress(info, address);
  return info;
}

static RendezvousInfo parseRendezvousInfo(const std::string &text) {
  nlohmann::json json = parseStrictly<nlohmann::json>(text);
  if (json.at(kKey).get<int>() != kVersion)
    throw std::runtime_error("unexpected version of " + std::string(kKey));
  for (const auto &[key, value] : json.items())
    if (key != kKey && key != "job" && key != "secret" && key != "port" && key != "addresses")
      throw std::runtime_error("unknown key \"" + key + "\"");
  RendezvousInfo info;
  info.job = json.at("job").get<uint64_t>();
  info.secret = parseSecret(json.at("secret").get<std::string>());
  info.port = json.at("port").get<uint16_t>();
  for (const auto &address : json.at("addresses"))
    addAddress(info, address.get<std::string>());
  return info;
}

std::optional<RendezvousInfo> readRendezvousFile(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return std::nullopt;
  /// Limit on the bytes that are read: rendezvous files are shorter, but the path may name another
  /// file of any size.
  constexpr size_t most = 4096;
  std::string text(most, '\0');
  struct stat info{};
  fstat(file, &info);
  ssize_t size = read(file, text.data(), most);
  close(file);
  text.resize(size_t(std::max<ssize_t>(size, 0)));
  if (info.st_uid != geteuid() && info.st_uid != 0)
    PSRT_FAIL(BadArgument,
              "PSRT_RENDEZVOUS_FILE is \"%s\", which belongs to user %u, who could redirect "
              "this job's processes; give a file in a folder of your own",
              path.c_str(), unsigned(info.st_uid));
  try {
    return parseRendezvousInfo(text);
  } catch (const std::exception &error) {
    PSRT_FAIL(BadArgument,
              "PSRT_RENDEZVOUS_FILE is \"%s\", which exists but is not a rendezvous "
              "file (%s); give a file that does not exist, in a folder that all hosts share",
              path.c_str(), describeJsonError(error).c_str());
  }
}

/// Returns whether a rank 0 still listens at the address, that is, whether its job is still
/// connecting.
static bool isAnswered(const RendezvousInfo &info) {
  Connector connector(sizeof(Challenge));
  connector.start(info.candidates());
  Deadline deadline = secondsFromNow(1);
  while (std::optional<Connector::Answer> answer = connector.next(deadline)) {
    Challenge challenge;
    if (receiveAll(answer->socket, &challenge, sizeof(challenge), deadline) &&
        challenge.magic == Challenge::kMagic)
      return true;
  }
  return false;
}

/// Removes the file of a killed job. Throws BadArgument if the job is still connecting.
static void removeStale(const std::string &path) {
  std::optional<RendezvousInfo> info = readRendezvousFile(path); // fails on another kind of file
  if (!info)
    return;
  if (isAnswered(*info))
    PSRT_FAIL(
        BadArgument,
        "PSRT_RENDEZVOUS_FILE is \"%s\", which another job is using now (its rank 0 is at %s); "
        "give each job its own file",
        path.c_str(), info->describe().c_str());
  if (std::optional<RendezvousInfo> again = readRendezvousFile(path);
      again && again->job == info->job)
    unlink(path.c_str());
}

/// Renames `from` to `to`. Returns false if `to` exists, or on an error (see errno). On a file
/// system without hard links, an existing `to` is replaced.
static bool renameToNew(const std::string &from, const std::string &to) {
  if (link(from.c_str(), to.c_str()) == 0) {
    unlink(from.c_str());
    return true;
  }
  if (errno == EEXIST)
    return false;
  if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) // a file system without hard links
    return std::rename(from.c_str(), to.c_str()) == 0;
  return false;
}

/// Writes the file under an unpredictable name and renames it, so that other users can never read
/// it. Returns false if another process has created the file in the meantime.
static bool writePrivately(const std::string &path, const std::string &text) {
  std::string temporary = path + "." + toHex(bytesOf(drawNonce()));
  int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool written = file >= 0 && write(file, text.data(), text.size()) == ssize_t(text.size()) &&
                 fsync(file) == 0;
  int reason = errno;
  if (file >= 0)
    close(file);
  if (written && renameToNew(temporary, path))
    return true;
  reason = written ? errno : reason;
  if (file >= 0)
    unlink(temporary.c_str());
  if (written && reason == EEXIST)
    return false;
  PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(reason));
}

RendezvousFile::RendezvousFile(const std::string &path, const RendezvousInfo &info)
    : path(path), job(info.job) {
  nlohmann::json addresses = nlohmann::json::array();
  for (const Candidate &candidate : info.candidates())
    addresses.push_back(candidate.address);
  nlohmann::json json = {{kKey, kVersion},
                         {"job", job},
                         {"secret", toHex(bytesOf(info.secret.bytes))},
                         {"port", info.port},
                         {"addresses", std::move(addresses)}};
  do
    removeStale(path);
  while (!writePrivately(path, json.dump() + "\n"));
}

RendezvousFile::~RendezvousFile() {
  try {
    if (std::optional<RendezvousInfo> info = readRendezvousFile(path); info && info->job == job)
      unlink(path.c_str());
  } catch (const Error &) { // ignored: another job replaced the file
  }
}

} // namespace psrt
