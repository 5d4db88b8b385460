// Fuzzes the readers of token files. The first byte of an input selects the options. The second
// byte is the position at which the rest is split into two files.
#include "fuzz/Scratch.h"
#include "runtime/core/Arena.h"
#include "runtime/core/Status.h"
#include "runtime/data/Batches.h"

static psrt::Input makeInput(const char *name, psrt::InputRole role, psrt::Dtype dtype) {
  psrt::Input input;
  input.name = name;
  input.role = role;
  input.dtype = dtype;
  input.limit = 200;
  input.hasIgnore = input.role == psrt::InputRole::Labels;
  input.ignore = -100;
  input.placement = psrt::Placement::whole({2, 3});
  return input;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  uint8_t flags = data[0];
  size_t cut = data[1] % (size - 1);
  data += 2, size -= 2;
  cut = std::min(cut, size);
  using psrt::TokenType;
  static constexpr std::optional<TokenType> types[] = {std::nullopt, TokenType::Uint8,
                                                       TokenType::Uint16, TokenType::Uint32};
  psrt::DataOptions options;
  options.type = types[flags & 3];
  options.labels = flags & 4 ? psrt::LabelRule::Next : psrt::LabelRule::Same;
  options.files.push_back(fuzz::writeFile("a.bin", data, flags & 8 ? cut : size));
  if (flags & 8)
    options.files.push_back(fuzz::writeFile("b.bin", data + cut, size - cut));
  fuzz::StayInside watch;
  psrt::Program program;
  psrt::Dtype dtype = flags & 16 ? psrt::Dtype::I32 : psrt::Dtype::I64;
  program.inputs.push_back(makeInput("tokens", psrt::InputRole::Data, dtype));
  program.inputs.push_back(makeInput("labels", psrt::InputRole::Labels, dtype));
  try {
    auto source = psrt::openData(program, options);
    psrt::SampleOrder order{source->samples(), 2, 2, bool(flags & 32), bool(flags & 64), 1};
    psrt::Arena memory(2 * 3 * 8);
    for (const psrt::Input &input : program.inputs) {
      psrt::InputWriter writer(input, program.mesh, {});
      for (int64_t step = 0; step < order.stepsPerEpoch() + 1 && order.stepsPerEpoch(); ++step)
        writer.write(*source, memory, 0,
                     [&](int64_t row) { return order.sample(step, step % 2, row); });
    }
  } catch (const psrt::Error &) {
  }
  return 0;
}
