// Fuzzes the import of `.pt2` archives. An input is either an archive, or a text that contains the
// files of an archive (fuzz/Sections.h).
#include "fuzz/ImportSupport.h"
#include "fuzz/JsonMutator.h"
#include "fuzz/Scratch.h"
#include "fuzz/Sections.h"
#include "parashard/Import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string archive(reinterpret_cast<const char *>(data), size);
  if (archive.starts_with("==="))
    archive = fuzz::makeArchive(fuzz::splitSections(archive));
  std::string path = fuzz::writeFile("model.pt2", archive.data(), archive.size());
  mlir::MLIRContext &context = fuzz::getContext();
  fuzz::StayInside watch;
  std::vector<std::string> notes;
  parashard::import::importPt2(context, path, {}, notes);
  return 0;
}

/// Changes one file of the archive, usually as JSON and rarely as bytes.
static std::string mutateArchive(std::string text, size_t maxSize, fuzz::Random &random) {
  fuzz::Sections sections = fuzz::splitSections(text);
  if (sections.empty() || random() % 16 == 0)
    return fuzz::mutateBytes(std::move(text), maxSize);
  auto &[name, content] = sections[random() % 4 ? 0 : random() % sections.size()];
  content = fuzz::mutateJson(std::move(content), random);
  return fuzz::joinSections(sections);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return fuzz::mutateInput(data, size, maxSize, seed, [&](std::string text, fuzz::Random &random) {
    return mutateArchive(std::move(text), maxSize, random);
  });
}
