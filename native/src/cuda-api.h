// The part of the CUDA driver API that is used, under the names of the public header, bound at run time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "library.h"

namespace weightroom {

using CudaResult = int;
using CudaDevice = int;
using CudaContext = void*;

struct CudaUuid {
  unsigned char bytes[16];
};

constexpr CudaResult kCudaSuccess = 0;
constexpr unsigned kRegisterReadOnly = 0x08;
constexpr int kReadOnlyRegisterSupported = 113;

struct CudaApi {
  Library library;
  CudaResult (*init)(unsigned) = nullptr;
  CudaResult (*driver_version)(int*) = nullptr;
  CudaResult (*device_count)(int*) = nullptr;
  CudaResult (*device)(CudaDevice*, int) = nullptr;
  CudaResult (*device_name)(char*, int, CudaDevice) = nullptr;
  CudaResult (*device_uuid)(CudaUuid*, CudaDevice) = nullptr;
  CudaResult (*device_attribute)(int*, int, CudaDevice) = nullptr;
  CudaResult (*device_pci)(char*, int, CudaDevice) = nullptr;
  CudaResult (*device_memory)(size_t*, CudaDevice) = nullptr;
  CudaResult (*context_retain)(CudaContext*, CudaDevice) = nullptr;
  CudaResult (*context_release)(CudaDevice) = nullptr;
  CudaResult (*context_current)(CudaContext) = nullptr;
  CudaResult (*host_register)(void*, size_t, unsigned) = nullptr;
  CudaResult (*host_unregister)(void*) = nullptr;
  CudaResult (*error_name)(CudaResult, const char**) = nullptr;
  CudaResult (*error_text)(CudaResult, const char**) = nullptr;
  // It says of itself that it is no driver but an imitation of one.
  bool simulated = false;
};

// Binds what `library` has; names the first entry point that is missing, or nullptr.
const char* BindCuda(CudaApi& api);

std::string ErrorName(const CudaApi& api, CudaResult result);
std::string ErrorText(const CudaApi& api, CudaResult result);
// As nvidia-smi writes it: GPU-8-4-4-4-12.
std::string UuidText(const CudaUuid& uuid);

}  // namespace weightroom
