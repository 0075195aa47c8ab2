// What each part of the addon adds to its exports.
#pragma once

#include <napi.h>

namespace weightroom {

void ExportFiles(Napi::Object exports);
void ExportLocks(Napi::Object exports);
void ExportTransfers(Napi::Object exports);
void ExportDigests(Napi::Object exports);
void ExportPayloads(Napi::Object exports);
void ExportTrees(Napi::Object exports);
void ExportProcess(Napi::Object exports);
void ExportMappings(Napi::Object exports);
void ExportCuda(Napi::Object exports);
void ExportNvml(Napi::Object exports);

}  // namespace weightroom
