// Fuzzes the runtime's reader of .safetensors files, as weights and as data.
#include "fuzz/Scratch.h"
#include "fuzz/TensorFileMutator.h"
#include "runtime/core/Status.h"
#include "runtime/data/Samples.h"
#include "runtime/data/WeightFiles.h"

static psrt::Input makeInput(const char *name, psrt::Dtype dtype, std::vector<int64_t> shape) {
  psrt::Input input;
  input.name = name;
  input.dtype = dtype;
  input.placement = psrt::Placement::whole(std::move(shape));
  return input;
}

/// Reads every byte of a tensor, so that sanitizers detect invalid sizes.
static uint64_t sum(const char *data, int64_t bytes) {
  uint64_t total = 0;
  for (int64_t i = 0; i < bytes; ++i)
    total += (unsigned char)data[i];
  return total;
}

static volatile uint64_t sink;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = fuzz::writeFile("x.safetensors", data, size);
  fuzz::StayInside watch;
  try {
    psrt::WeightFiles files(path);
    for (const auto &[name, tensor] : files.tensors()) {
      int64_t count = psrt::dtypeSize(tensor.dtype);
      for (int64_t size : tensor.shape)
        count *= size;
      sink = sum(tensor.data, count);
    }
  } catch (const psrt::Error &) {
  }
  try {
    psrt::Program program;
    program.inputs.push_back(makeInput("a", psrt::Dtype::F32, {2, 3}));
    program.inputs.push_back(makeInput("b", psrt::Dtype::I64, {2}));
    auto source = psrt::openData(program, {{path}, std::nullopt, std::nullopt, {}});
    for (const psrt::Input &input : program.inputs) {
      int64_t bytes = psrt::sampleElements(input) * psrt::dtypeSize(input.dtype);
      std::vector<char> scratch(bytes);
      for (int64_t sample = 0; sample < source->samples(); ++sample)
        sink = sum(source->read(input, sample, scratch.data()), bytes);
    }
  } catch (const psrt::Error &) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, [&](std::string file, fuzz::Random &random) {
    return fuzz::mutateTensorFile(std::move(file), maxSize, random);
  });
}
