// Sizes of trees. Each link to a file counts, as each has a st_size; what vanishes or can't be read
// meanwhile counts as nothing.
#include <fcntl.h>

#include <optional>

#include "directory.h"
#include "failure.h"
#include "stat-value.h"
#include "tree.h"

namespace weightroom {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

uint64_t Mix(uint64_t value) {
  // The finalizer of splitmix64 (Steele, Lea and Flood 2014): every input bit reaches every output bit.
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint64_t Nanoseconds(const struct timespec& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// Of one inode as it is: any write, chmod, rename or link changes its ctime. Added up over a tree, so that the
// order in which a directory lists its entries does not count.
uint64_t SignatureOf(const struct stat& stat) {
  uint64_t mixed = 0;
  for (const uint64_t part : {static_cast<uint64_t>(stat.st_dev), static_cast<uint64_t>(stat.st_ino),
                              static_cast<uint64_t>(stat.st_mode), static_cast<uint64_t>(stat.st_size),
                              Nanoseconds(stat.st_mtim), Nanoseconds(stat.st_ctim)}) {
    mixed = Mix(mixed ^ part);
  }
  return mixed;
}

void AddEntry(TreeSums& sums, const struct stat& stat) {
  const uint64_t allocated = static_cast<uint64_t>(stat.st_blocks) * kBlockBytes;
  sums.allocated_bytes += allocated;
  if (S_ISDIR(stat.st_mode) || stat.st_nlink <= 1) sums.freeable_bytes += allocated;
  sums.signature += SignatureOf(stat);
  if (!S_ISREG(stat.st_mode)) return;
  sums.bytes += static_cast<uint64_t>(stat.st_size);
  sums.files++;
}

void Enter(DirectoryStack& stack, int parent, const char* name, const struct stat& stat) {
  Descriptor fd(Retry([&] { return ::openat(parent, name, kOpenDirectory); }));
  if (!fd.Open()) return;
  try {
    auto entries = ReadEntries(fd.Get());
    stack.Push({std::move(fd), stat, {}, std::move(entries)});
  } catch (const Failure&) {
  }
}

void SumBelow(TreeSums& sums, int parent, const char* name, const struct stat& stat) {
  DirectoryStack stack;
  Enter(stack, parent, name, stat);
  while (!stack.Empty()) {
    auto& level = stack.Top();
    if (level.left.empty()) {
      if (!stack.Pop()) return;
      continue;
    }
    const DirectoryEntry entry = std::move(level.left.back());
    level.left.pop_back();
    struct stat below;
    if (::fstatat(level.fd.Get(), entry.name.c_str(), &below, AT_SYMLINK_NOFOLLOW) != 0) continue;
    AddEntry(sums, below);
    if (S_ISDIR(below.st_mode)) Enter(stack, level.fd.Get(), entry.name.c_str(), below);
  }
}

std::optional<ListedEntry> Look(int directory, std::string name) {
  ListedEntry entry{std::move(name), {}, {}};
  if (::fstatat(directory, entry.name.c_str(), &entry.stat, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  AddEntry(entry.sums, entry.stat);
  if (S_ISDIR(entry.stat.st_mode)) SumBelow(entry.sums, directory, entry.name.c_str(), entry.stat);
  return entry;
}

}  // namespace

std::vector<ListedEntry> ListTree(int directory) {
  // A description of its own: the caller's position must not move.
  const Descriptor own(Retry([&] { return ::openat(directory, ".", kOpenDirectory); }));
  if (!own.Open()) Fail("openat", ".");
  std::vector<ListedEntry> listed;
  for (auto& entry : ReadEntries(own.Get())) {
    if (auto seen = Look(own.Get(), std::move(entry.name))) listed.push_back(std::move(*seen));
  }
  return listed;
}

uint64_t TreeBytes(int directory) {
  uint64_t bytes = 0;
  for (const ListedEntry& entry : ListTree(directory)) bytes += entry.sums.bytes;
  return bytes;
}

}  // namespace weightroom
