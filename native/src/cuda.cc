// The calls of CudaThread in index.ts: finding the driver, its devices, and registering mapped pages with one.
//
// What the driver refuses is a value {call, code, name, text}; only what this side can't do is an error.
#include <memory>
#include <string>
#include <vector>

#include "args.h"
#include "cuda-thread.h"
#include "exports.h"
#include "mapping.h"

namespace weightroom {
namespace {

using Deliver = CudaThread::Deliver;
using ThreadHolder = std::shared_ptr<CudaThread>;

const napi_type_tag kThreadTag = {0x6375646174687265, 0x776569676874726f};

struct Status {
  const char* call;
  CudaResult code;
  std::string name;
  std::string text;
};

Status StatusOf(const CudaApi& api, const char* call, CudaResult code) {
  if (code == kCudaSuccess) return {call, code, "CUDA_SUCCESS", "no error"};
  return {call, code, ErrorName(api, code), ErrorText(api, code)};
}

Napi::Object StatusValue(napi_env env, const Status& status) {
  auto value = Napi::Object::New(env);
  value.Set("call", status.call);
  value.Set("code", status.code);
  value.Set("name", status.name);
  value.Set("text", status.text);
  return value;
}

Deliver Delivering(Status status) {
  return [status](napi_env env) -> napi_value { return StatusValue(env, status); };
}

ThreadHolder ThreadArg(const Napi::Value& value) {
  if (!value.IsExternal() || !value.As<Napi::External<ThreadHolder>>().CheckTypeTag(&kThreadTag)) {
    BadType(value.Env(), "thread must come from cudaThread()");
  }
  return *value.As<Napi::External<ThreadHolder>>().Data();
}

const CudaApi& LoadedApi(const CudaThread& thread) {
  if (thread.api.init == nullptr) throw Failure{EINVAL, "cuInit", {}, "no driver library is loaded"};
  return thread.api;
}

void RequireOpened(const CudaThread& thread) {
  if (!thread.opened) throw Failure{EINVAL, "cuCtxSetCurrent", {}, "no device is open"};
}

// Something latched by a failed call would be taken for the result of a later one.
void Drain(const CudaThread& thread) { static_cast<void>(thread.api.context_current(thread.context)); }

Napi::Value MakeThread(const Napi::CallbackInfo& info) {
  auto external = Napi::External<ThreadHolder>::New(info.Env(), new ThreadHolder(CudaThread::Start(info.Env())),
                                                    [](Napi::Env, ThreadHolder* holder) { delete holder; });
  external.TypeTag(&kThreadTag);
  return external;
}

Napi::Value Load(const Napi::CallbackInfo& info) {
  const auto names = LibraryNamesArg(info[1]);
  const auto work = [names](CudaThread& thread) -> Deliver {
    CudaApi api;
    api.library = FindLibrary(names, "cuInit");
    const char* missing = api.library.handle == nullptr ? nullptr : BindCuda(api);
    const bool usable = api.library.handle != nullptr && missing == nullptr;
    if (missing != nullptr) api.library.attempts.push_back({api.library.path, std::string("it has no ") + missing});
    if (usable) thread.api = api;
    return [api, usable](napi_env env) -> napi_value {
      auto value = Napi::Object::New(env);
      value.Set("path", usable ? Napi::String::New(env, api.library.path) : Napi::Env(env).Null());
      value.Set("simulated", usable && api.simulated);
      value.Set("attempts", Napi::Value(env, AttemptsValue(env, api.library.attempts)));
      return value;
    };
  };
  return {info.Env(), CudaThread::Run(ThreadArg(info[0]), info.Env(), nullptr, work)};
}

Napi::Value Initialise(const Napi::CallbackInfo& info) {
  const auto work = [](CudaThread& thread) -> Deliver {
    const CudaApi& api = LoadedApi(thread);
    int version = 0;
    const Status status = StatusOf(api, "cuInit", api.init(0));
    if (status.code == kCudaSuccess) api.driver_version(&version);
    return [status, version](napi_env env) -> napi_value {
      auto value = StatusValue(env, status);
      value.Set("driverVersion", version);
      return value;
    };
  };
  return {info.Env(), CudaThread::Run(ThreadArg(info[0]), info.Env(), nullptr, work)};
}

struct DeviceFacts {
  int ordinal;
  std::string name, uuid, pci;
  double total_bytes;
  bool read_only_register;
};

Status ReadDevice(const CudaApi& api, int ordinal, DeviceFacts& facts) {
  CudaDevice device = 0;
  CudaUuid uuid{};
  char name[256] = "", pci[64] = "";
  size_t bytes = 0;
  int read_only = 0;
  const char* call = "cuDeviceGet";
  CudaResult result = api.device(&device, ordinal);
  const auto next = [&](const char* named, auto function) {
    if (result != kCudaSuccess) return;
    call = named;
    result = function();
  };
  next("cuDeviceGetName", [&] { return api.device_name(name, sizeof name, device); });
  next("cuDeviceGetUuid", [&] { return api.device_uuid(&uuid, device); });
  next("cuDeviceGetPCIBusId", [&] { return api.device_pci(pci, sizeof pci, device); });
  next("cuDeviceTotalMem", [&] { return api.device_memory(&bytes, device); });
  next("cuDeviceGetAttribute", [&] {
    const CudaResult found = api.device_attribute(&read_only, kReadOnlyRegisterSupported, device);
    // A driver older than the attribute does not know it, and so can't do what it stands for.
    constexpr CudaResult kInvalidValue = 1;
    if (found == kInvalidValue) read_only = 0;
    return found == kInvalidValue ? kCudaSuccess : found;
  });
  facts = {ordinal, name, UuidText(uuid), pci, static_cast<double>(bytes), read_only == 1};
  return StatusOf(api, call, result);
}

Napi::Value Devices(const Napi::CallbackInfo& info) {
  const auto work = [](CudaThread& thread) -> Deliver {
    const CudaApi& api = LoadedApi(thread);
    std::vector<DeviceFacts> devices;
    int count = 0;
    Status status = StatusOf(api, "cuDeviceGetCount", api.device_count(&count));
    for (int i = 0; i < count && status.code == kCudaSuccess; i++) {
      status = ReadDevice(api, i, devices.emplace_back());
    }
    return [status, devices](napi_env env) -> napi_value {
      auto value = StatusValue(env, status);
      auto list = Napi::Array::New(env, devices.size());
      for (uint32_t i = 0; i < devices.size(); i++) {
        auto entry = Napi::Object::New(env);
        entry.Set("index", devices[i].ordinal);
        entry.Set("name", devices[i].name);
        entry.Set("uuid", devices[i].uuid);
        entry.Set("pciAddress", devices[i].pci);
        entry.Set("totalBytes", devices[i].total_bytes);
        entry.Set("readOnlyRegister", devices[i].read_only_register);
        list[i] = entry;
      }
      value.Set("devices", list);
      return value;
    };
  };
  return {info.Env(), CudaThread::Run(ThreadArg(info[0]), info.Env(), nullptr, work)};
}

Napi::Value OpenDevice(const Napi::CallbackInfo& info) {
  const auto ordinal = static_cast<int>(SafeIntegerArg(info[1], "index", 1023));
  const auto work = [ordinal](CudaThread& thread) -> Deliver {
    const CudaApi& api = LoadedApi(thread);
    if (thread.opened) throw Failure{EBUSY, "cuDevicePrimaryCtxRetain", {}, "a device is open already"};
    Status status = StatusOf(api, "cuDeviceGet", api.device(&thread.device, ordinal));
    if (status.code == kCudaSuccess) {
      status = StatusOf(api, "cuDevicePrimaryCtxRetain", api.context_retain(&thread.context, thread.device));
    }
    if (status.code == kCudaSuccess) {
      thread.opened = true;
      status = StatusOf(api, "cuCtxSetCurrent", api.context_current(thread.context));
    }
    return Delivering(status);
  };
  return {info.Env(), CudaThread::Run(ThreadArg(info[0]), info.Env(), nullptr, work)};
}

Napi::Value Register(const Napi::CallbackInfo& info) {
  const MappedRange range = RangeArgs(info, 1, 2, 3);
  const auto work = [range](CudaThread& thread) -> Deliver {
    RequireOpened(thread);
    const Status status = StatusOf(thread.api, "cuMemHostRegister",
                                   thread.api.host_register(range.address, range.length, kRegisterReadOnly));
    if (status.code != kCudaSuccess) Drain(thread);
    return Delivering(status);
  };
  return {info.Env(), CudaThread::Run(ThreadArg(info[0]), info.Env(), info[1], work)};
}

Napi::Value Unregister(const Napi::CallbackInfo& info) {
  const MappedRange range = RangeArgs(info, 1, 2, 3);
  const auto work = [range](CudaThread& thread) -> Deliver {
    RequireOpened(thread);
    const Status status = StatusOf(thread.api, "cuMemHostUnregister", thread.api.host_unregister(range.address));
    if (status.code != kCudaSuccess) Drain(thread);
    return Delivering(status);
  };
  return {info.Env(), CudaThread::Run(ThreadArg(info[0]), info.Env(), info[1], work)};
}

Napi::Value CloseDevice(const Napi::CallbackInfo& info) {
  const auto work = [](CudaThread& thread) -> Deliver {
    RequireOpened(thread);
    thread.opened = false;
    return Delivering(StatusOf(thread.api, "cuDevicePrimaryCtxRelease", thread.api.context_release(thread.device)));
  };
  return {info.Env(), CudaThread::Run(ThreadArg(info[0]), info.Env(), nullptr, work)};
}

}  // namespace

void ExportCuda(Napi::Object exports) {
  Export<MakeThread>(exports, "cudaThread");
  Export<Load>(exports, "cudaLoad");
  Export<Initialise>(exports, "cudaInitialise");
  Export<Devices>(exports, "cudaDevices");
  Export<OpenDevice>(exports, "cudaOpen");
  Export<Register>(exports, "cudaRegister");
  Export<Unregister>(exports, "cudaUnregister");
  Export<CloseDevice>(exports, "cudaClose");
}

}  // namespace weightroom
