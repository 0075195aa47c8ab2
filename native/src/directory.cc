// getdents64(2) and the stack of open directories; see directory.h.
#include "directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include <cstring>

#include "failure.h"

namespace weightroom {
namespace {

constexpr size_t kOpenLevels = 16;

bool IsDotOrDotDot(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

}  // namespace

std::vector<DirectoryEntry> ReadEntries(int fd) {
  std::vector<DirectoryEntry> entries;
  alignas(dirent64) char buffer[32 * 1024];
  for (;;) {
    const long got = ::syscall(SYS_getdents64, fd, buffer, sizeof buffer);
    // A directory that is removed while it is open has no entries any more.
    if (got == 0 || (got < 0 && errno == ENOENT)) return entries;
    if (got < 0) Fail("getdents64");
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      if (!IsDotOrDotDot(entry->d_name)) entries.push_back({entry->d_name, entry->d_type});
      at += entry->d_reclen;
    }
  }
}

void DirectoryStack::Push(Level level) {
  if (levels_.size() >= kOpenLevels) levels_[levels_.size() - kOpenLevels].fd.Reset();
  levels_.push_back(std::move(level));
}

bool DirectoryStack::Pop() {
  const Descriptor child = std::move(levels_.back().fd);
  levels_.pop_back();
  if (levels_.empty() || levels_.back().fd.Open()) return true;
  Level& top = levels_.back();
  top.fd = Descriptor(::openat(child.Get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat stat;
  return top.fd.Open() && ::fstat(top.fd.Get(), &stat) == 0 && SameFile(stat, top.stat);
}

}  // namespace weightroom
