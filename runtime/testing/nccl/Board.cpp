// Implements boards in POSIX shared memory.
#include "runtime/testing/nccl/Board.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace psrt::fake {

/// New shared memory is zero-initialized, which is the initial state of every field.
struct Board::Header {
  std::atomic<uint32_t> opened, arrived, turn;
};

static size_t align(size_t bytes) { return (bytes + 63) / 64 * 64; }

Board::Board(const std::string &name, int ranks, const std::atomic<bool> &aborted)
    : ranks(ranks), aborted(aborted) {
  size = align(sizeof(Header)) + size_t(ranks) * kSlotBytes +
         size_t(ranks) * size_t(ranks) * align(sizeof(Mail));
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  void *memory = MAP_FAILED;
  if (file >= 0 && ftruncate(file, off_t(size)) == 0)
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0)
    close(file);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "fake NCCL: cannot create shared memory %s of %zu bytes\n", name.c_str(),
                 size);
    std::abort();
  }
  header = static_cast<Header *>(memory);
  if (header->opened.fetch_add(1) + 1 == uint32_t(ranks))
    shm_unlink(name.c_str());
}

Board::~Board() { munmap(header, size); }

char *Board::slot(int of) const {
  return reinterpret_cast<char *>(header) + align(sizeof(Header)) + size_t(of) * kSlotBytes;
}

Board::Mail &Board::mail(int from, int to) const {
  char *first = slot(ranks);
  return *reinterpret_cast<Mail *>(first + size_t(from * ranks + to) * align(sizeof(Mail)));
}

void Board::pause(unsigned waits) const {
  constexpr unsigned kYields = 32;
  constexpr std::chrono::microseconds kSleep(20);
  if (aborted)
    throw BoardAborted();
  if (waits < kYields)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kSleep);
}

void Board::barrier() {
  uint32_t turn = header->turn;
  if (header->arrived.fetch_add(1) + 1 == uint32_t(ranks)) {
    header->arrived = 0;
    ++header->turn;
    return;
  }
  for (unsigned waits = 0; header->turn == turn; ++waits)
    pause(waits);
}

} // namespace psrt::fake
