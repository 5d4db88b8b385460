// Runs a fuzz target on saved files, for builds without libFuzzer. With -runs=N, runs N mutations
// of these files instead, numbered from -seed=S, without coverage feedback.
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

using Bytes = std::vector<uint8_t>;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                                                size_t maxSize, unsigned seed);

/// Replaces the function of libFuzzer that custom mutators call: changes, inserts or removes a
/// byte.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize) {
  static std::minstd_rand random;
  size_t at = size ? random() % size : 0;
  unsigned kind = random() % 3;
  if (kind == 0 && size > 1) {
    std::memmove(data + at, data + at + 1, size - at - 1);
    return size - 1;
  }
  if (kind == 1 && size < maxSize) {
    std::memmove(data + at + 1, data + at, size - at);
    data[at] = uint8_t(random());
    return size + 1;
  }
  if (size)
    data[at] = uint8_t(random());
  return size;
}

namespace {
/// Memory limit. Inputs have a few kB, so only a reader that trusts a size in its input exceeds the
/// limit.
constexpr rlim_t kMaxMemory = rlim_t(2) << 30;
/// Time limit for the run of one mutation. A run that exceeds the limit is a failure.
constexpr unsigned kMaxSeconds = 30;
/// Factor by which a mutation may enlarge an input.
constexpr size_t kMaxGrowth = 2;

Bytes current; ///< the input being run

/// Saves the current input as `crash-PID` in the working folder, after the input has crashed the
/// target.
void keepInput(int signal) {
  char name[32];
  std::snprintf(name, sizeof(name), "crash-%d", int(getpid()));
  int file = ::creat(name, 0644);
  bool written = file >= 0 && ::write(file, current.data(), current.size()) >= 0;
  (void)written;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::vector<std::string> listFiles(const std::vector<std::string> &arguments) {
  std::vector<std::string> paths;
  for (const std::string &argument : arguments) {
    if (!std::filesystem::is_directory(argument)) {
      paths.push_back(argument);
      continue;
    }
    for (const auto &entry : std::filesystem::directory_iterator(argument))
      paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Bytes readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes{std::istreambuf_iterator<char>(file), {}};
}

size_t mutate(Bytes &input, unsigned seed) {
  size_t size = input.size();
  input.resize(size * kMaxGrowth + 16);
  size = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(input.data(), size, input.size(), seed)
                                 : LLVMFuzzerMutate(input.data(), size, input.size());
  return size;
}

/// Runs the mutations with numbers `seed` to `seed + runs - 1`. A mutation depends only on its
/// number.
void runMutations(const std::vector<std::string> &paths, unsigned seed, unsigned runs) {
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, keepInput);
  std::vector<Bytes> inputs;
  for (const std::string &path : paths)
    inputs.push_back(readFile(path));
  for (unsigned i = 0; i < runs; ++i) {
    std::minstd_rand random(seed + i);
    random.discard(2);
    current = inputs[random() % inputs.size()];
    for (unsigned changes = 1 + random() % 2; changes > 0; --changes)
      current.resize(mutate(current, unsigned(random())));
    alarm(kMaxSeconds);
    LLVMFuzzerTestOneInput(current.data(), current.size());
    alarm(0);
    if ((i + 1) % 100 == 0)
      std::printf("%u runs, seed %u\n", i + 1, seed + i), std::fflush(stdout);
  }
}

void runFiles(const std::vector<std::string> &paths) {
  for (const std::string &path : paths) {
    current = readFile(path);
    std::printf("%s: %zu bytes\n", path.c_str(), current.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(current.data(), current.size());
  }
  std::printf("%zu inputs\n", paths.size());
}

/// Reads the number of an argument such as `-runs=100`. Returns false if the argument is not of
/// this form.
bool readNumber(std::string_view argument, std::string_view prefix, unsigned &number) {
  if (!argument.starts_with(prefix))
    return false;
  const char *end = argument.data() + argument.size();
  return std::from_chars(argument.data() + prefix.size(), end, number).ptr == end;
}
} // namespace

int main(int argc, char **argv) {
  struct rlimit limit{kMaxMemory, kMaxMemory};
  setrlimit(RLIMIT_DATA, &limit);
  unsigned runs = 0, seed = 1;
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i)
    if (!readNumber(argv[i], "-runs=", runs) && !readNumber(argv[i], "-seed=", seed))
      arguments.emplace_back(argv[i]);
  std::vector<std::string> paths = listFiles(arguments);
  if (paths.empty())
    return 1;
  if (runs)
    runMutations(paths, seed, runs);
  else
    runFiles(paths);
  return 0;
}
