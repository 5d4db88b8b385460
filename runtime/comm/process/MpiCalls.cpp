// Implements libpsrt_comm_mpi.so. No other file includes MPI's header.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "runtime/comm/process/MpiCalls.h"
#include <algorithm>
#include <deque>
#include <mpi.h>
#include <mutex>
#include <vector>

namespace {

/// Pending requests by channel. Each thread has its own channel.
std::deque<std::vector<MPI_Request>> channels;
MPI_Comm comm = MPI_COMM_NULL;
bool initializedHere = false;
std::mutex serial; ///< only one thread may call MPI at a time
char lastError[MPI_MAX_ERROR_STRING] = "", version[MPI_MAX_LIBRARY_VERSION_STRING] = "";

/// Counts in MPI are ints, so large transfers are split.
constexpr size_t maxBytes = size_t(1) << 30;

int keepError(int code) {
  int length = 0;
  if (code != MPI_SUCCESS)
    MPI_Error_string(code, lastError, &length);
  return code;
}

const char *nameLibrary() {
  int length = 0;
  MPI_Get_library_version(version, &length);
  for (char &c : version)
    if (c == ',' || c == '\n')
      c = 0;
  return version;
}

const char *readError() { return lastError; }

int start(int *rank, int *size, int *threads) {
  int initialized = 0, provided = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    if (int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided))
      return keepError(code);
    initializedHere = true;
  }
  MPI_Query_thread(&provided);
  *threads = provided >= MPI_THREAD_SERIALIZED;
  if (int code = MPI_Comm_dup(MPI_COMM_WORLD, &comm))
    return keepError(code);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  return keepError(MPI_Comm_size(MPI_COMM_WORLD, size));
}

int broadcast(void *data, size_t bytes) {
  return keepError(MPI_Bcast(data, int(bytes), MPI_BYTE, 0, comm));
}

int openChannel(int number) {
  std::lock_guard<std::mutex> lock(serial);
  while (channels.size() <= size_t(number))
    channels.emplace_back();
  return 0;
}

template <typename Begin> int beginPieces(int number, size_t bytes, Begin begin) {
  std::lock_guard<std::mutex> lock(serial);
  std::vector<MPI_Request> &begun = channels[number];
  for (size_t at = 0; at < bytes; at += maxBytes) {
    begun.emplace_back();
    if (int code = begin(at, int(std::min(maxBytes, bytes - at)), &begun.back()))
      return keepError(code);
  }
  return 0;
}

int sendTo(int number, int to, const void *data, size_t bytes) {
  return beginPieces(number, bytes, [&](size_t at, int count, MPI_Request *request) {
    return MPI_Isend(static_cast<const char *>(data) + at, count, MPI_BYTE, to, number, comm,
                     request);
  });
}

int receiveFrom(int number, int from, void *data, size_t bytes) {
  return beginPieces(number, bytes, [&](size_t at, int count, MPI_Request *request) {
    return MPI_Irecv(static_cast<char *>(data) + at, count, MPI_BYTE, from, number, comm, request);
  });
}

int testAll(int number, int *done) {
  std::lock_guard<std::mutex> lock(serial);
  std::vector<MPI_Request> &begun = channels[number];
  int code = MPI_Testall(int(begun.size()), begun.data(), done, MPI_STATUSES_IGNORE);
  if (code == MPI_SUCCESS && *done)
    begun.clear();
  return keepError(code);
}

int finish() {
  MPI_Comm_free(&comm);
  return initializedHere ? keepError(MPI_Finalize()) : 0;
}

} // namespace

extern "C" __attribute__((visibility("default")))
const psrt_mpi_calls psrt_mpi = {sizeof(psrt_mpi_calls),
                                 nameLibrary,
                                 readError,
                                 start,
                                 broadcast,
                                 openChannel,
                                 sendTo,
                                 receiveFrom,
                                 testAll,
                                 finish};
