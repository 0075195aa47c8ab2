// What this process asks the kernel about itself.
#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>

#include "args.h"
#include "exports.h"

namespace weightroom {
namespace {

Napi::Value SetParentDeathSignal(const Napi::CallbackInfo& info) {
  const uint64_t signal = SafeIntegerArg(info[0], "signal", static_cast<uint64_t>(SIGRTMAX));
  if (::prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0) Fail("prctl");
  return info.Env().Undefined();
}

// No destructors and no exit handlers: a library with a thread in a call that never returns could wait for it.
Napi::Value ExitNow(const Napi::CallbackInfo& info) { ::_exit(static_cast<int>(SafeIntegerArg(info[0], "code", 255))); }

}  // namespace

void ExportProcess(Napi::Object exports) {
  Export<SetParentDeathSignal>(exports, "setParentDeathSignal");
  Export<ExitNow>(exports, "exitNow");
}

}  // namespace weightroom
