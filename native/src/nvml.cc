// Which processes use which GPU, from NVIDIA's management library: what nvidia-smi shows, without starting it.
#include <string>
#include <vector>

#include "args.h"
#include "exports.h"
#include "jobs.h"
#include "library.h"

namespace weightroom {
namespace {

using NvmlResult = int;
using NvmlDevice = void*;

constexpr NvmlResult kNvmlSuccess = 0;
constexpr NvmlResult kNvmlTooSmall = 7;

// nvmlProcessInfo_t of the public header.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;  // all ones: not known
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct GpuProcess {
  std::string uuid;
  unsigned pid;
  double used_bytes;  // negative: not known
};

struct Found {
  Library library;
  NvmlResult result = kNvmlSuccess;
  std::string driver;
  std::vector<GpuProcess> processes;
};

struct Nvml {
  NvmlResult (*init)() = nullptr;
  NvmlResult (*shutdown)() = nullptr;
  NvmlResult (*driver)(char*, unsigned) = nullptr;
  NvmlResult (*count)(unsigned*) = nullptr;
  NvmlResult (*device)(unsigned, NvmlDevice*) = nullptr;
  NvmlResult (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlResult (*processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;

  explicit Nvml(const Library& library) {
    Bind(library, init, "nvmlInit_v2");
    Bind(library, shutdown, "nvmlShutdown");
    Bind(library, driver, "nvmlSystemGetDriverVersion");
    Bind(library, count, "nvmlDeviceGetCount_v2");
    Bind(library, device, "nvmlDeviceGetHandleByIndex_v2");
    Bind(library, uuid, "nvmlDeviceGetUUID");
    Bind(library, processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  }

  bool Complete() const { return init && shutdown && driver && count && device && uuid && processes; }
};

void ReadProcesses(const Nvml& nvml, NvmlDevice device, std::vector<GpuProcess>& found) {
  char uuid[96] = "";
  if (nvml.uuid(device, uuid, sizeof uuid) != kNvmlSuccess) return;
  std::vector<NvmlProcess> processes(64);
  unsigned count = 0;
  NvmlResult result;
  do {
    count = static_cast<unsigned>(processes.size());
    result = nvml.processes(device, &count, processes.data());
    if (result == kNvmlTooSmall) processes.resize(processes.size() * 2);
  } while (result == kNvmlTooSmall && processes.size() <= 65536);
  if (result != kNvmlSuccess) return;
  for (unsigned i = 0; i < count; i++) {
    const auto used = processes[i].used_bytes;
    found.push_back({uuid, processes[i].pid, used == ~0ULL ? -1 : static_cast<double>(used)});
  }
}

Found Look(const std::vector<std::string>& names) {
  Found found;
  found.library = FindLibrary(names, "nvmlInit_v2");
  const Nvml nvml(found.library);
  if (!nvml.Complete()) return found;
  found.result = nvml.init();
  if (found.result != kNvmlSuccess) return found;
  char driver[96] = "";
  if (nvml.driver(driver, sizeof driver) == kNvmlSuccess) found.driver = driver;
  unsigned devices = 0;
  found.result = nvml.count(&devices);
  for (unsigned i = 0; i < devices && found.result == kNvmlSuccess; i++) {
    NvmlDevice device = nullptr;
    if (nvml.device(i, &device) == kNvmlSuccess) ReadProcesses(nvml, device, found.processes);
  }
  nvml.shutdown();
  return found;
}

napi_value FoundValue(napi_env env, const Found& found) {
  const bool loaded = found.library.handle != nullptr;
  auto value = Napi::Object::New(env);
  value.Set("path", loaded ? Napi::String::New(env, found.library.path) : Napi::Env(env).Null());
  value.Set("attempts", Napi::Value(env, AttemptsValue(env, found.library.attempts)));
  value.Set("code", found.result);
  value.Set("driver", found.driver.empty() ? Napi::Env(env).Null() : Napi::String::New(env, found.driver));
  auto list = Napi::Array::New(env, found.processes.size());
  for (uint32_t i = 0; i < found.processes.size(); i++) {
    const GpuProcess& process = found.processes[i];
    auto entry = Napi::Object::New(env);
    entry.Set("uuid", process.uuid);
    entry.Set("pid", process.pid);
    entry.Set("usedBytes", process.used_bytes < 0 ? Napi::Env(env).Null() : Napi::Number::New(env, process.used_bytes));
    list[i] = entry;
  }
  value.Set("processes", list);
  return value;
}

Napi::Value GpuProcesses(const Napi::CallbackInfo& info) {
  const auto names = LibraryNamesArg(info[0]);
  return {info.Env(), RunJob(info.Env(), {}, [names] { return Look(names); }, FoundValue)};
}

}  // namespace

void ExportNvml(Napi::Object exports) { Export<GpuProcesses>(exports, "gpuProcesses"); }

}  // namespace weightroom
