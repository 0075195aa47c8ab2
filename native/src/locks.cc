// flock(2), never blocking. A lock belongs to the open file description: it goes when the last descriptor
// for it is closed, which the kernel does for a process that dies.
#include <sys/file.h>

#include "args.h"
#include "exports.h"

namespace weightroom {
namespace {

Napi::Value FlockTry(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  const int operation = (BooleanArg(info[1], "exclusive") ? LOCK_EX : LOCK_SH) | LOCK_NB;
  const bool taken = Retry([&] { return ::flock(fd, operation); }) == 0;
  if (!taken && errno != EWOULDBLOCK) Fail("flock");
  return Napi::Boolean::New(info.Env(), taken);
}

Napi::Value FlockRelease(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  if (Retry([&] { return ::flock(fd, LOCK_UN); }) != 0) Fail("flock");
  return info.Env().Undefined();
}

}  // namespace

void ExportLocks(Napi::Object exports) {
  Export<FlockTry>(exports, "flockTry");
  Export<FlockRelease>(exports, "flockRelease");
}

}  // namespace weightroom
