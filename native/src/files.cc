// Opening, looking at, naming and removing single files: the calls that return at once. Descriptors are
// opened O_CLOEXEC without exception, and the `*at` calls never follow a link in their last component.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"
#include "directory.h"
#include "exports.h"
#include "names.h"
#include "stat-value.h"

namespace weightroom {
namespace {

constexpr mode_t kDefaultMode = 0666;

mode_t OptionalMode(const Napi::Value& value) { return value.IsUndefined() ? kDefaultMode : ModeArg(value); }

Napi::Value Open(const Napi::CallbackInfo& info) {
  const std::string path = PathArg(info[0]);
  const int flags = FlagsArg(info[1]) | O_CLOEXEC;
  const mode_t mode = OptionalMode(info[2]);
  const int fd = Retry([&] { return ::open(path.c_str(), flags, mode); });
  if (fd < 0) Fail("open", path);
  return Napi::Number::New(info.Env(), fd);
}

Napi::Value OpenAt(const Napi::CallbackInfo& info) {
  const int directory = DescriptorArg(info[0], "directory");
  const std::string name = NameArg(info[1], "name");
  const int flags = FlagsArg(info[2]) | O_CLOEXEC | O_NOFOLLOW;
  const mode_t mode = OptionalMode(info[3]);
  const int fd = Retry([&] { return ::openat(directory, name.c_str(), flags, mode); });
  if (fd < 0) Fail("openat", name);
  return Napi::Number::New(info.Env(), fd);
}

// On Linux the descriptor is gone even when close says EINTR; closing again could hit somebody else's.
Napi::Value Close(const Napi::CallbackInfo& info) {
  if (::close(DescriptorArg(info[0], "fd")) != 0 && errno != EINTR) Fail("close");
  return info.Env().Undefined();
}

Napi::Value FStat(const Napi::CallbackInfo& info) {
  struct stat stat;
  if (::fstat(DescriptorArg(info[0], "fd"), &stat) != 0) Fail("fstat");
  return {info.Env(), StatValue(info.Env(), stat)};
}

Napi::Value LStat(const Napi::CallbackInfo& info) {
  const std::string path = PathArg(info[0]);
  struct stat stat;
  if (::lstat(path.c_str(), &stat) != 0) Fail("lstat", path);
  return {info.Env(), StatValue(info.Env(), stat)};
}

Napi::Value FStatAt(const Napi::CallbackInfo& info) {
  const int directory = DescriptorArg(info[0], "directory");
  const std::string name = NameArg(info[1], "name");
  struct stat stat;
  if (::fstatat(directory, name.c_str(), &stat, AT_SYMLINK_NOFOLLOW) != 0) Fail("fstatat", name);
  return {info.Env(), StatValue(info.Env(), stat)};
}

Napi::Value MkdirAt(const Napi::CallbackInfo& info) {
  const int directory = DescriptorArg(info[0], "directory");
  const std::string name = NameArg(info[1], "name");
  if (::mkdirat(directory, name.c_str(), ModeArg(info[2])) != 0) Fail("mkdirat", name);
  return info.Env().Undefined();
}

Napi::Value RenameAt(const Napi::CallbackInfo& info) {
  const int from_directory = DescriptorArg(info[0], "fromDirectory");
  const std::string from = NameArg(info[1], "from");
  const int to_directory = DescriptorArg(info[2], "toDirectory");
  const std::string to = NameArg(info[3], "to");
  if (::renameat(from_directory, from.c_str(), to_directory, to.c_str()) != 0) Fail("renameat", from);
  return info.Env().Undefined();
}

Napi::Value UnlinkAt(const Napi::CallbackInfo& info) {
  const int directory = DescriptorArg(info[0], "directory");
  const std::string name = NameArg(info[1], "name");
  if (::unlinkat(directory, name.c_str(), 0) != 0) Fail("unlinkat", name);
  return info.Env().Undefined();
}

Napi::Value FChmod(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  const mode_t mode = ModeArg(info[1]);
  if (Retry([&] { return ::fchmod(fd, mode); }) != 0) Fail("fchmod");
  return info.Env().Undefined();
}

Napi::Value FTruncate(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  const auto size = static_cast<off_t>(SafeIntegerArg(info[1], "sizeBytes"));
  if (Retry([&] { return ::ftruncate(fd, size); }) != 0) Fail("ftruncate");
  return info.Env().Undefined();
}

// The descriptor may have been read before, so it starts over.
Napi::Value ReadDirectory(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  if (::lseek(fd, 0, SEEK_SET) != 0) Fail("readdir");
  const std::vector<DirectoryEntry> entries = ReadEntries(fd);
  Napi::Array names = Napi::Array::New(info.Env(), entries.size());
  for (uint32_t i = 0; i < entries.size(); i++) {
    names[i] = Napi::Value(info.Env(), NameValue(info.Env(), entries[i].name));
  }
  return names;
}

}  // namespace

void ExportFiles(Napi::Object exports) {
  Export<Open>(exports, "open");
  Export<OpenAt>(exports, "openat");
  Export<Close>(exports, "close");
  Export<FStat>(exports, "fstat");
  Export<LStat>(exports, "lstat");
  Export<FStatAt>(exports, "fstatat");
  Export<MkdirAt>(exports, "mkdirat");
  Export<RenameAt>(exports, "renameat");
  Export<UnlinkAt>(exports, "unlinkat");
  Export<FChmod>(exports, "fchmod");
  Export<FTruncate>(exports, "ftruncate");
  Export<ReadDirectory>(exports, "readdir");
}

}  // namespace weightroom
