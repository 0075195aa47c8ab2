// Reading directories, and walking down and up in them without recursion and with a bounded number of
// descriptors however deep the tree is.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <vector>

#include "descriptor.h"

namespace weightroom {

struct DirectoryEntry {
  std::string name;
  unsigned char type;  // DT_*; DT_UNKNOWN where the file system doesn't say
};

// From the descriptor's position to the end, without '.' and '..'. Throws Failure.
std::vector<DirectoryEntry> ReadEntries(int fd);

inline bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// The directories from a starting point down to the current one. Only the innermost few stay open; an outer
// one is opened again through '..' on the way up, and only trusted when it is still the same inode.
class DirectoryStack {
 public:
  struct Level {
    Descriptor fd;
    struct stat stat;
    std::string name;
    std::vector<DirectoryEntry> left;  // not visited yet
  };

  bool Empty() const { return levels_.empty(); }
  Level& Top() { return levels_.back(); }
  void Push(Level level);
  // False when the directory above is no longer where it was; the stack is of no use then.
  [[nodiscard]] bool Pop();

 private:
  std::vector<Level> levels_;
};

}  // namespace weightroom
