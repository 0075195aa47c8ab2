// Module entry. The addon has no state outside an environment, so it loads in any number of worker threads.
#include "exports.h"

namespace weightroom {
namespace {

Napi::Object Init(Napi::Env, Napi::Object exports) {
  ExportFiles(exports);
  ExportLocks(exports);
  ExportTransfers(exports);
  ExportDigests(exports);
  ExportPayloads(exports);
  ExportTrees(exports);
  ExportProcess(exports);
  ExportMappings(exports);
  ExportCuda(exports);
  ExportNvml(exports);
  return exports;
}

}  // namespace
}  // namespace weightroom

static Napi::Object InitModule(Napi::Env env, Napi::Object exports) { return weightroom::Init(env, exports); }

NODE_API_MODULE(weightroom, InitModule)
