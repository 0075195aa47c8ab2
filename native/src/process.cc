// What this process asks the kernel about itself.
#include <csignal>
#include <sys/prctl.h>

#include "args.h"
#include "exports.h"

namespace weightroom {
namespace {

Napi::Value SetParentDeathSignal(const Napi::CallbackInfo& info) {
  const uint64_t signal = SafeIntegerArg(info[0], "signal", static_cast<uint64_t>(SIGRTMAX));
  if (::prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0) Fail("prctl");
  return info.Env().Undefined();
}

}  // namespace

void ExportProcess(Napi::Object exports) { Export<SetParentDeathSignal>(exports, "setParentDeathSignal"); }

}  // namespace weightroom
