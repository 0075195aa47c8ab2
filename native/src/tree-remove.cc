// Removal of a tree. A directory is only ever entered through a descriptor that is proven to be the inode
// which was looked at, so a link or another directory put in its place is never walked into. Whatever
// changes meanwhile is looked at again, a bounded number of times. What is mounted below is not entered: a
// bind mount of the same file system has the same device, so mounts are told apart by their own ids.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "failure.h"
#include "tree.h"

namespace weightroom {
namespace {

constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kRetries = 100;
constexpr uint64_t kNoMountId = 0;

// The id of the mount that an open directory lies on; kNoMountId where the kernel (before 5.8) does not tell.
uint64_t MountOf(int fd) {
  struct statx stat;
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stat) != 0) return kNoMountId;
  return (stat.stx_mask & STATX_MNT_ID) != 0 ? stat.stx_mnt_id : kNoMountId;
}

bool IsOpenAs(const Descriptor& fd, const struct stat& expected) {
  struct stat stat;
  return ::fstat(fd.Get(), &stat) == 0 && SameFile(stat, expected);
}

// For a directory whose owner may not read it. The O_PATH descriptor pins the inode, so that chmod, which has
// no other way to avoid following a link, can't hit anything else.
Descriptor OpenSealed(int parent, const std::string& name, const struct stat& expected) {
  const Descriptor pinned(::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!pinned.Open() || !IsOpenAs(pinned, expected)) return Descriptor();
  const std::string path = "/proc/self/fd/" + std::to_string(pinned.Get());
  if (::chmod(path.c_str(), 0700) != 0) Fail("chmod", name);
  Descriptor fd(::openat(pinned.Get(), ".", kOpenDirectory));
  if (!fd.Open()) Fail("openat", name);
  return fd;
}

class Removal {
 public:
  explicit Removal(int base) : base_(base) {
    struct stat stat;
    if (::fstat(base, &stat) != 0) Fail("fstat");
    device_ = stat.st_dev;
    mount_ = MountOf(base);
  }

  void Run(const std::string& name) {
    Visit(name, DT_UNKNOWN);
    while (!stack_.Empty()) Step();
  }

 private:
  int Current() { return stack_.Empty() ? base_ : stack_.Top().fd.Get(); }

  void Step() {
    auto& level = stack_.Top();
    if (level.left.empty()) return Leave();
    const DirectoryEntry entry = std::move(level.left.back());
    level.left.pop_back();
    Visit(entry.name, entry.type);
  }

  // Removes a file or link; enters a directory.
  void Visit(const std::string& name, unsigned char type) {
    for (bool directory = type == DT_DIR;; SpendRetry(name)) {
      if (!directory) {
        if (::unlinkat(Current(), name.c_str(), 0) == 0 || errno == ENOENT) return;
        if (errno != EISDIR && errno != EPERM) Fail("unlinkat", name);
      }
      const int refusal = errno;
      struct stat stat;
      if (::fstatat(Current(), name.c_str(), &stat, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return;
        Fail("fstatat", name);
      }
      if (S_ISDIR(stat.st_mode)) {
        if (Enter(name, stat)) return;
      } else if (!directory && refusal == EPERM) {
        throw Failure{EPERM, "unlinkat", name};
      }
      directory = S_ISDIR(stat.st_mode);
    }
  }

  static Failure Mounted(const std::string& name) {
    return {EXDEV, "openat", name, "something is mounted there: unmount it first"};
  }

  // False when something else has taken the place of what `stat` describes.
  bool Enter(const std::string& name, const struct stat& stat) {
    if (stat.st_dev != device_) throw Mounted(name);
    Descriptor fd(Retry([&] { return ::openat(Current(), name.c_str(), kOpenDirectory); }));
    if (!fd.Open() && errno == EACCES) {
      fd = OpenSealed(Current(), name, stat);
    } else if (!fd.Open() && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
      Fail("openat", name);
    }
    if (fd.Open() && MountOf(fd.Get()) != mount_) throw Mounted(name);
    if (!fd.Open() || !IsOpenAs(fd, stat)) return false;
    // Somebody else's directory can't be changed, but may still be writable for us.
    if ((stat.st_mode & 0700) != 0700 && ::fchmod(fd.Get(), 0700) != 0 && errno != EPERM) Fail("fchmod", name);
    auto entries = ReadEntries(fd.Get());
    stack_.Push({std::move(fd), stat, name, std::move(entries)});
    return true;
  }

  // Removes the directory that has just been emptied.
  void Leave() {
    const std::string name = std::move(stack_.Top().name);
    if (!stack_.Pop()) throw Failure{ESTALE, "openat", name, "its parent was moved while it was being removed"};
    if (::unlinkat(Current(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return;
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) Fail("unlinkat", name);
    SpendRetry(name);
    Visit(name, DT_UNKNOWN);
  }

  void SpendRetry(const std::string& name) {
    if (retries_left_-- == 0) throw Failure{EBUSY, "unlinkat", name, "somebody else keeps changing it"};
  }

  int base_;
  dev_t device_;
  uint64_t mount_;
  int retries_left_ = kRetries;
  DirectoryStack stack_;
};

}  // namespace

void RemoveTree(int directory, const std::string& name) { Removal(directory).Run(name); }

}  // namespace weightroom
