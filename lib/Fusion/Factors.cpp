// Implements the splitting and unification of factors.
#include "Factors.h"

using namespace parashard::fusion;

FactorList Factors::make(int64_t size) {
  if (size == 1)
    return {};
  nodes.push_back({size, {}});
  return {unsigned(nodes.size() - 1)};
}

FactorList Factors::resolve(llvm::ArrayRef<unsigned> list) const {
  FactorList leaves;
  for (unsigned id : list) {
    if (nodes[id].parts.empty())
      leaves.push_back(id);
    else
      leaves.append(resolve(nodes[id].parts));
  }
  return leaves;
}

int64_t Factors::getSize(llvm::ArrayRef<unsigned> list) const {
  int64_t size = 1;
  for (unsigned id : list)
    size *= nodes[id].size;
  return size;
}

void Factors::split(unsigned leaf, int64_t minor) {
  unsigned first = nodes.size();
  int64_t major = nodes[leaf].size / minor;
  nodes.push_back({major, {}});
  nodes.push_back({minor, {}});
  nodes[leaf].parts = {first, first + 1};
}

bool Factors::unify(llvm::ArrayRef<unsigned> a, llvm::ArrayRef<unsigned> b) {
  if (getSize(a) != getSize(b))
    return false;
  while (true) {
    // Compares leaves from the minor end; splits change the lists, so each round resolves them
    // again.
    FactorList left = resolve(a), right = resolve(b);
    while (!left.empty() && !right.empty() && left.back() == right.back()) {
      left.pop_back();
      right.pop_back();
    }
    if (left.empty() || right.empty())
      return left.empty() && right.empty();
    unsigned x = left.back(), y = right.back();
    int64_t xs = nodes[x].size, ys = nodes[y].size;
    if (llvm::is_contained(right, x) || llvm::is_contained(left, y))
      return false;
    if (xs == ys)
      nodes[x].parts = {y};
    else if (xs > ys && xs % ys == 0)
      split(x, ys);
    else if (ys > xs && ys % xs == 0)
      split(y, xs);
    else
      return false;
  }
}

bool Factors::cut(llvm::ArrayRef<unsigned> list, llvm::ArrayRef<int64_t> sizes,
                  llvm::SmallVectorImpl<FactorList> &parts) {
  FactorList made;
  parts.clear();
  for (int64_t size : sizes) {
    parts.push_back(make(size));
    made.append(parts.back());
  }
  return unify(made, list);
}
