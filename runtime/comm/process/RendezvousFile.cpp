// Making, writing and reading notices.
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

/// The key by which a file is known as a posting, and the version of what it has.
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
    throw std::runtime_error("a secret that is none");
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

static void addAddress(RendezvousInfo &posting, const std::string &address) {
  for (auto &place : posting.addresses)
    if (!place[0]) {
      std::snprintf(place, sizeof(place), "%s", address.c_str());
      return;
    }
}

RendezvousInfo makeRendezvousInfo(const Socket &listener) {
  RendezvousInfo posting;
  Nonce drawn = drawNonce();
  std::memcpy(&posting.job, drawn.data(), sizeof(posting.job));
  posting.secret = drawJobKey();
  posting.port = portOf(listener);
  for (const std::string &address : ownAddresses())
    addAddress(posting, address);
  return posting;
}

static RendezvousInfo parseRendezvousInfo(const std::string &text) {
  nlohmann::json json = parseStrictly<nlohmann::json>(text);
  if (json.at(kKey).get<int>() != kVersion)
    throw std::runtime_error("another version of " + std::string(kKey));
  for (const auto &[key, value] : json.items())
    if (key != kKey && key != "job" && key != "secret" && key != "port" && key != "addresses")
      throw std::runtime_error("unknown key \"" + key + "\"");
  RendezvousInfo posting;
  posting.job = json.at("job").get<uint64_t>();
  posting.secret = parseSecret(json.at("secret").get<std::string>());
  posting.port = json.at("port").get<uint16_t>();
  for (const auto &address : json.at("addresses"))
    addAddress(posting, address.get<std::string>());
  return posting;
}

std::optional<RendezvousInfo> readRendezvousFile(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return std::nullopt;
  /// No posting is as long; what is may be a user's file of any size.
  constexpr size_t most = 4096;
  std::string text(most, '\0');
  struct stat info{};
  fstat(file, &info);
  ssize_t size = read(file, text.data(), most);
  close(file);
  text.resize(size_t(std::max<ssize_t>(size, 0)));
  if (info.st_uid != geteuid() && info.st_uid != 0)
    PSRT_FAIL(BadArgument,
              "PSRT_RENDEZVOUS_FILE is \"%s\", which belongs to user %u: whoever writes it chooses "
              "where this job's processes meet; name a file in a folder of your own",
              path.c_str(), unsigned(info.st_uid));
  try {
    return parseRendezvousInfo(text);
  } catch (const std::exception &error) {
    PSRT_FAIL(BadArgument,
              "PSRT_RENDEZVOUS_FILE is \"%s\", which is there and says nothing of where processes "
              "meet (%s); name a file that is not there, in a folder that all hosts see",
              path.c_str(), describeJsonError(error).c_str());
  }
}

/// Returns whether a rank 0 listens where the posting says: its job meets now.
static bool isAnswered(const RendezvousInfo &posting) {
  Connector connector(sizeof(Challenge));
  connector.start(posting.candidates());
  Deadline deadline = secondsFromNow(1);
  while (std::optional<Connector::Answer> answer = connector.next(deadline)) {
    Challenge challenge;
    if (receiveAll(answer->socket, &challenge, sizeof(challenge), deadline) &&
        challenge.magic == Challenge::kMagic)
      return true;
  }
  return false;
}

/// Takes away what a job that was killed has left. \throws BadArgument where its job is alive.
static void removeStale(const std::string &path) {
  std::optional<RendezvousInfo> posting = readRendezvousFile(path); // another file stays
  if (!posting)
    return;
  if (isAnswered(*posting))
    PSRT_FAIL(
        BadArgument,
        "PSRT_RENDEZVOUS_FILE is \"%s\", by which another job meets now (its rank 0 is at %s); "
        "give each job a file of its own",
        path.c_str(), posting->describe().c_str());
  if (std::optional<RendezvousInfo> again = readRendezvousFile(path);
      again && again->job == posting->job)
    unlink(path.c_str());
}

/// Renames where nothing is; false: something is there.
static bool renameToNew(const std::string &from, const std::string &to) {
  if (link(from.c_str(), to.c_str()) == 0) {
    unlink(from.c_str());
    return true;
  }
  if (errno == EEXIST)
    return false;
  if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) // a file system without links
    return std::rename(from.c_str(), to.c_str()) == 0;
  return false;
}

/// Writes under an unpredictable name, then renames. Other users can never read the file.
/// Returns false when another process has written the file in between.
static bool writePrivately(const std::string &path, const std::string &text) {
  std::string temporary = path + "." + toHex(bytesOf(drawNonce()));
  int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool written = file >= 0 && write(file, text.data(), text.size()) == ssize_t(text.size()) &&
                 fsync(file) == 0;
  int why = errno;
  if (file >= 0)
    close(file);
  if (written && renameToNew(temporary, path))
    return true;
  why = written ? errno : why;
  if (file >= 0)
    unlink(temporary.c_str());
  if (written && why == EEXIST)
    return false;
  PSRT_FAIL(BadInput, "cannot write \"%s\": %s", path.c_str(), std::strerror(why));
}

RendezvousFile::RendezvousFile(const std::string &path, const RendezvousInfo &posting)
    : path(path), job(posting.job) {
  nlohmann::json addresses = nlohmann::json::array();
  for (const Candidate &candidate : posting.candidates())
    addresses.push_back(candidate.address);
  nlohmann::json json = {{kKey, kVersion},
                         {"job", job},
                         {"secret", toHex(bytesOf(posting.secret.bytes))},
                         {"port", posting.port},
                         {"addresses", std::move(addresses)}};
  do
    removeStale(path);
  while (!writePrivately(path, json.dump() + "\n"));
}

RendezvousFile::~RendezvousFile() {
  try {
    if (std::optional<RendezvousInfo> posting = readRendezvousFile(path);
        posting && posting->job == job)
      unlink(path.c_str());
  } catch (const Error &) { // not ours any more
  }
}

} // namespace psrt
