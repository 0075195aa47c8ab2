// Binding the driver API; see cuda-api.h.
#include "cuda-api.h"

namespace weightroom {
namespace {

std::string Described(CudaResult (*describe)(CudaResult, const char**), CudaResult result) {
  const char* text = nullptr;
  if (describe == nullptr || describe(result, &text) != kCudaSuccess || text == nullptr) return {};
  return text;
}

}  // namespace

const char* BindCuda(CudaApi& api) {
  const char* missing = nullptr;
  const auto bind = [&](auto& function, const char* name, const char* older = nullptr) {
    Bind(api.library, function, name);
    if (function == nullptr && older != nullptr) Bind(api.library, function, older);
    if (function == nullptr && missing == nullptr) missing = name;
  };
  bind(api.init, "cuInit");
  bind(api.driver_version, "cuDriverGetVersion");
  bind(api.device_count, "cuDeviceGetCount");
  bind(api.device, "cuDeviceGet");
  bind(api.device_name, "cuDeviceGetName");
  // The older one gives a partition of a GPU (MIG) the UUID of the whole.
  bind(api.device_uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid");
  bind(api.device_attribute, "cuDeviceGetAttribute");
  bind(api.device_pci, "cuDeviceGetPCIBusId");
  bind(api.device_memory, "cuDeviceTotalMem_v2");
  bind(api.context_retain, "cuDevicePrimaryCtxRetain");
  bind(api.context_release, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease");
  bind(api.context_current, "cuCtxSetCurrent");
  bind(api.host_register, "cuMemHostRegister_v2", "cuMemHostRegister");
  bind(api.host_unregister, "cuMemHostUnregister");
  bind(api.error_name, "cuGetErrorName");
  bind(api.error_text, "cuGetErrorString");
  api.simulated = SymbolOf(api.library, "weightroom_simulated_driver") != nullptr;
  return missing;
}

std::string ErrorName(const CudaApi& api, CudaResult result) {
  const std::string name = Described(api.error_name, result);
  return name.empty() ? "CUDA_ERROR_" + std::to_string(result) : name;
}

std::string ErrorText(const CudaApi& api, CudaResult result) {
  const std::string text = Described(api.error_text, result);
  return text.empty() ? "error " + std::to_string(result) + ", which this driver does not describe" : text;
}

std::string UuidText(const CudaUuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid.bytes[i] >> 4];
    text += kDigits[uuid.bytes[i] & 15];
  }
  return text;
}

}  // namespace weightroom
