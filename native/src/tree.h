// Sums over, and removal of, whole directory trees. These block and belong on a pool thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

namespace weightroom {

struct TreeSums {
  uint64_t bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t files = 0;
  // Allocated bytes that nothing outside keeps: files with other links are left out.
  uint64_t freeable_bytes = 0;
  // Changes when anything at or below does: see tree-sum.cc.
  uint64_t signature = 0;
};

struct ListedEntry {
  std::string name;
  struct stat stat;
  TreeSums sums;
};

// Throw Failure only when the directory itself can't be read.
std::vector<ListedEntry> ListTree(int directory);
uint64_t TreeBytes(int directory);

// Throws Failure at the first entry that can't be removed; what came before it is gone then.
void RemoveTree(int directory, const std::string& name);

}  // namespace weightroom
