// Runs a fuzz target over files that are kept: for builds without libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/// libFuzzer's own mutations, which custom ones build on; nothing is mutated here.
extern "C" size_t LLVMFuzzerMutate(uint8_t *, size_t size, size_t) { return size; }

namespace {
/// Inputs are a few kB; a reader that takes more than this believes a size that one of them states.
constexpr rlim_t kMostMemory = rlim_t(2) << 30;
} // namespace

int main(int argc, char **argv) {
  struct rlimit limit{kMostMemory, kMostMemory};
  setrlimit(RLIMIT_DATA, &limit);
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      paths.push_back(argv[i]);
      continue;
    }
    for (const auto &entry : std::filesystem::directory_iterator(argv[i]))
      paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string &path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s: %zu bytes\n", path.c_str(), bytes.size());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", paths.size());
  return paths.empty();
}
