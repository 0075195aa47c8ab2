"""The Python side of the interop suite: a driver that holds vLLM-Omni's published host-weight store.

It owns the wire (one JSON request per line on stdin, one JSON reply per line on stdout) and the objects that
live between requests: open stores, leases and raw locks, each under a handle that the caller chooses.
Everything about the store itself is done by the published package; nothing of its format is repeated here.

Requests are {"id", "command", ...}. Replies are {"id", "ok": true, "result": {...}} or
{"id", "error": {"type", "message", "failure"?}} and can come out of order, because every request runs in a
thread of its own: a wait for a lock must not keep the driver from releasing that lock. Events are
{"event": ...} without an id. The process ends when stdin does, whatever is still running, so that a test
that dies takes its workers with it.

Usage: side.py PACKAGES [--versions]     (PACKAGES: the folder that `pip install --target` filled)
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import hashlib
import json
import os
import sys
import threading
import time
import types
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = Path(sys.argv[1]).resolve()
sys.path.insert(0, str(PACKAGES))
# The parent package's own initialisation pulls in the whole serving engine; the store needs none of it.
_parent = types.ModuleType("vllm_omni")
_parent.__path__ = [str(PACKAGES / "vllm_omni")]
sys.modules["vllm_omni"] = _parent

import torch  # noqa: E402
from vllm_omni.host_weight_runtime import (  # noqa: E402
    ArtifactWriter,
    BuildRequest,
    CanonicalJson,
    CapacityPolicy,
    HostWeightError,
    HostWeightFailure,
    HostWeightLease,
    HostWeightRuntime,
    HostWeightRuntimeConfig,
    IntegrityPolicy,
    ProductionMetadata,
    ProductionPolicy,
    ProductionSourceMode,
    RuntimeMode,
    StorageClass,
    StorageDomainPolicy,
    StorageScope,
    StoreResult,
    TensorKind,
    TensorWriteSpec,
    ValidationLevel,
    WaitPolicy,
    WeightArtifactIdentity,
    WeightProductionSpec,
)
from vllm_omni.host_weight_runtime.filesystem.locks import FileLock, lock_is_active  # noqa: E402
from vllm_omni.host_weight_runtime.filesystem.store import FilesystemHostWeightStore  # noqa: E402
from vllm_omni.host_weight_runtime.identity import canonical_json  # noqa: E402
from vllm_omni.host_weight_runtime.manifest import WeightManifest  # noqa: E402

Json = dict[str, Any]

FILL_BLOCK_BYTES = 1 << 20
PAUSE_POLL_SECONDS = 0.005
DTYPE_NAMES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
).split()


def environment() -> Json:
    """What runs here: versions, and which abilities beyond the oldest wheel this one has."""
    return {
        "pid": os.getpid(),
        "versions": {
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "torch": str(torch.__version__),
            "vllm_omni": metadata.version("vllm-omni"),
            "safetensors": metadata.version("safetensors"),
            "regex": metadata.version("regex"),
        },
        "features": {
            "cleanup_quarantined": hasattr(FilesystemHostWeightStore, "cleanup_quarantined"),
            "serialized_admission": "build_admission"
            in {field.name for field in dataclasses.fields(CapacityPolicy)},
            "dtypes": [name for name in DTYPE_NAMES if hasattr(torch, name)],
        },
    }


# --- The wire ------------------------------------------------------------------------------------------------


class Wire:
    """Whole lines on the real stdout; anything a library prints goes to stderr instead."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="ascii")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, message: Json) -> None:
        line = json.dumps(message, ensure_ascii=True, allow_nan=False) + "\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()


def failure_fields(failure: HostWeightFailure | None) -> Json | None:
    if failure is None:
        return None
    return {
        "stage": failure.stage.value,
        "code": failure.code.value,
        "retryable": failure.retryable,
        "message": failure.message,
        "details": failure.details.to_value(),
    }


def error_fields(error: BaseException) -> Json:
    fields: Json = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, HostWeightError):
        fields["failure"] = failure_fields(error.failure)
    return fields


def parse_identity(text: str) -> WeightArtifactIdentity:
    return WeightArtifactIdentity.from_dict(json.loads(text))


def deadline_after(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


# --- What a lease shows --------------------------------------------------------------------------------------


def tensor_sha256(tensor: torch.Tensor) -> str:
    """Digest of the bytes where they lie: a copy would not show what a transport would read."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return hashlib.sha256().hexdigest()
    return hashlib.sha256((ctypes.c_char * size).from_address(tensor.data_ptr())).hexdigest()


def mapped_regions(lease: HostWeightLease) -> list[Json]:
    """Regions as offsets into their payload file, from the kernel's list of mappings."""
    mappings: list[tuple[int, int, int, str]] = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6:
            start, _, end = fields[0].partition("-")
            mappings.append((int(start, 16), int(end, 16), int(fields[2], 16), fields[5]))

    def offset_of(region_name: str, address: int) -> int | None:
        for start, end, offset, path in mappings:
            if start <= address < end and path.endswith(f"/{region_name}"):
                return offset + address - start
        return None

    return [
        {
            "file_name": region.file_name,
            "offset": offset_of(region.file_name, region.address),
            "length": region.length,
            "read_only": region.read_only,
        }
        for region in lease.mapped_regions
    ]


def lease_fields(lease: HostWeightLease, *, digests: bool) -> Json:
    return {
        "manifest": lease.manifest.canonical_bytes.decode("ascii"),
        "provenance": dataclasses.asdict(lease.provenance),
        "mapped_regions": mapped_regions(lease),
        "tensors": [
            {"name": name, "sha256": tensor_sha256(tensor)} for name, tensor in sorted(lease.tensors.items())
        ]
        if digests
        else None,
    }


# --- Producing -----------------------------------------------------------------------------------------------


def fill_bytes(seed: str, size: int) -> bytes:
    """Reproducible content: block i is SHAKE-256 of "seed:i", so that the other side can make it too."""
    blocks: list[bytes] = []
    for start in range(0, size, FILL_BLOCK_BYTES):
        block = hashlib.shake_256(f"{seed}:{start // FILL_BLOCK_BYTES}".encode())
        blocks.append(block.digest(min(FILL_BLOCK_BYTES, size - start)))
    return b"".join(blocks)


class Tensor:
    """One tensor of a build request: what is declared, and the bytes."""

    def __init__(self, request: Json) -> None:
        dtype = getattr(torch, request["dtype"].removeprefix("torch."), None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"this torch has no dtype {request['dtype']!r}")
        self.spec = TensorWriteSpec(
            request["name"],
            tuple(request["shape"]),
            dtype,
            TensorKind(request.get("kind", "parameter")),
            request.get("role", "weight"),
        )
        self._data: str | None = request.get("data")
        self._seed: str = str(request.get("fill", self.spec.name))

    def value(self) -> torch.Tensor:
        size = self.spec.nbytes
        raw = bytearray(fill_bytes(self._seed, size) if self._data is None else base64.b64decode(self._data))
        if len(raw) != size:
            raise ValueError(f"tensor {self.spec.name!r} takes {size} bytes, got {len(raw)}")
        if size == 0:
            return torch.empty(self.spec.shape, dtype=self.spec.dtype)
        if self.spec.dtype is torch.bool:
            raw = bytearray(byte & 1 for byte in raw)
        return torch.frombuffer(raw, dtype=torch.uint8).view(self.spec.dtype).reshape(self.spec.shape)


class Producer:
    """Writes the tensors of one request, and can be held while it is inside the build."""

    def __init__(self, identity: WeightArtifactIdentity, request: Json, emit: Callable[[Json], None]) -> None:
        self.spec = WeightProductionSpec(
            identity.producer.producer_id, (identity,), ProductionSourceMode.CHECKPOINT_STREAM
        )
        self._identity = identity
        self._tensors = {item["name"]: Tensor(item) for item in request["tensors"]}
        self._files: list[Json] = request.get("files") or [{"name": "weights.safetensors"}]
        self._format_metadata = CanonicalJson.from_value(json.loads(request.get("format_metadata", "{}")))
        self._pause: Json | None = request.get("pause")
        self._handle: str = request["handle"]
        self._emit = emit

    def produce(self, writer: ArtifactWriter) -> ProductionMetadata:
        at = "start" if self._pause is None else self._pause.get("at", "start")
        if at == "start":
            self._inside()
        for file in self._files:
            ordered = bool(file.get("ordered", True))
            names: list[str] = file.get("tensors") or list(self._tensors)
            tensors = [self._tensors[name] for name in names]
            with writer.open_tensor_file(
                file["name"], tuple(tensor.spec for tensor in tensors), ordered=ordered
            ) as payload:
                for tensor in sorted(tensors, key=lambda item: item.spec.name) if ordered else tensors:
                    # The published writer cannot take an empty tensor, and needs no write for one.
                    if tensor.spec.nbytes:
                        payload.write_tensor(tensor.spec.name, tensor.value())
        if at == "written":
            self._inside()
        producer = self._identity.producer
        return ProductionMetadata(producer.manifest_schema, producer.restorer_schema, self._format_metadata)

    def _inside(self) -> None:
        self._emit({"event": "producing", "handle": self._handle})
        if self._pause is None:
            return
        path = Path(self._pause["path"])
        while True:
            # An empty file is one that is still being written.
            word = path.read_text(encoding="utf-8").strip() if path.exists() else ""
            if word == "go":
                return
            if word == "exit":
                os._exit(9)
            if word == "fail":
                raise RuntimeError("the producer was told to fail")
            if word:
                raise ValueError(f"a pause file says go, exit or fail, not {word!r}")
            time.sleep(PAUSE_POLL_SECONDS)


# --- Commands ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Policies:
    domain: StorageDomainPolicy
    capacity: CapacityPolicy
    integrity: IntegrityPolicy
    wait: WaitPolicy

    @classmethod
    def of(cls, request: Json) -> Policies:
        return cls(
            StorageDomainPolicy(
                root=Path(request["root"]),
                scope=StorageScope(request.get("scope", "node")),
                domain_id=request.get("domain_id", "node"),
                storage_class=StorageClass(request.get("storage_class", "disk")),
            ),
            # Passed on as they are, so that a wheel that knows more of them can be driven unchanged.
            CapacityPolicy(**request.get("capacity", {})),
            IntegrityPolicy(
                local_lookup=ValidationLevel(request.get("local_lookup", "manifest_and_metadata")),
                require_trusted_permissions=request.get("require_trusted_permissions", True),
            ),
            WaitPolicy(request.get("coordination_timeout_seconds", 600.0)),
        )


@dataclasses.dataclass(frozen=True)
class OpenStore:
    store: FilesystemHostWeightStore
    policies: Policies


class Handles:
    """Live objects by name. A name is used once: a test that reuses one has lost track of something."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._objects: dict[str, Any] = {}
        self._lock = threading.Lock()

    def put(self, handle: str, value: Any) -> None:
        with self._lock:
            if handle in self._objects:
                raise ValueError(f"there is already a {self._kind} named {handle!r}")
            self._objects[handle] = value

    def get(self, handle: str) -> Any:
        with self._lock:
            if handle not in self._objects:
                raise ValueError(f"there is no {self._kind} named {handle!r}")
            return self._objects[handle]

    def take(self, handle: str) -> Any:
        with self._lock:
            if handle not in self._objects:
                raise ValueError(f"there is no {self._kind} named {handle!r}")
            return self._objects.pop(handle)


class Driver:
    def __init__(self, emit: Callable[[Json], None]) -> None:
        self._emit = emit
        self._stores = Handles("store")
        self._leases = Handles("lease")
        self._locks = Handles("lock")

    def handle(self, request: Json) -> Json:
        command = getattr(self, f"do_{request['command']}", None)
        if command is None:
            raise ValueError(f"there is no command {request['command']!r}")
        return command(request)

    def do_ping(self, _request: Json) -> Json:
        return environment()

    def do_open(self, request: Json) -> Json:
        policies = Policies.of(request)
        started = time.perf_counter()
        store = FilesystemHostWeightStore(
            policies.domain, policies.capacity, policies.integrity, wait=policies.wait
        )
        elapsed = time.perf_counter() - started
        self._stores.put(request["handle"], OpenStore(store, policies))
        return {
            "root": str(store.root),
            "domain_uuid": store.domain_uuid,
            "filesystem_type": store.filesystem_type,
            "policy_version": store.policy_version,
            "elapsed_seconds": elapsed,
        }

    def do_canonical(self, request: Json) -> Json:
        # Text as a worker would have it in hand, or bytes as it would find them in a file.
        source = request["text"] if "text" in request else base64.b64decode(request["base64"])
        encoded = canonical_json(json.loads(source))
        return {"text": encoded.decode("ascii"), "sha256": hashlib.sha256(encoded).hexdigest()}

    def do_identity(self, request: Json) -> Json:
        identity = parse_identity(request["identity"])
        return {"key": identity.key, "text": identity.canonical_bytes.decode("ascii")}

    def do_lookup(self, request: Json) -> Json:
        identity = parse_identity(request["identity"])
        store: FilesystemHostWeightStore = self._stores.get(request["store"]).store
        validation = ValidationLevel(request.get("validation", "manifest_and_metadata"))
        started = time.perf_counter()
        result = store.lookup(
            identity, validation=validation, deadline=deadline_after(request.get("timeout_seconds"))
        )
        elapsed = time.perf_counter() - started
        return self._store_result(result, request, elapsed)

    def do_build(self, request: Json) -> Json:
        identity = parse_identity(request["identity"])
        store: FilesystemHostWeightStore = self._stores.get(request["store"]).store
        producer = Producer(identity, request, self._emit)
        started = time.perf_counter()
        result = store.get_or_build(
            BuildRequest(identity),
            producer,
            validation=ValidationLevel(request.get("validation", "manifest_and_metadata")),
            deadline=time.monotonic() + request["timeout_seconds"],
        )
        elapsed = time.perf_counter() - started
        return self._store_result(result, request, elapsed)

    def _store_result(self, result: StoreResult, request: Json, elapsed: float) -> Json:
        fields: Json = {
            "status": result.status.value,
            "failure": failure_fields(result.failure),
            "elapsed_seconds": elapsed,
            "content": None,
        }
        if result.lease is not None:
            fields["content"] = self._show_lease(result.lease, request)
        return fields

    def _show_lease(self, lease: HostWeightLease, request: Json) -> Json:
        """Describe a lease, then keep it under the handle that was asked for or close it."""
        keep: str | None = request.get("lease")
        try:
            content = lease_fields(lease, digests=request.get("digests", True))
            if keep is not None:
                self._leases.put(keep, lease)
        except BaseException:
            lease.close()
            raise
        if keep is None:
            lease.close()
        return content

    def do_lease_close(self, request: Json) -> Json:
        self._leases.take(request["lease"]).close()
        return {}

    def do_lease_read(self, request: Json) -> Json:
        return lease_fields(self._leases.get(request["lease"]), digests=True)

    def do_lock_hold(self, request: Json) -> Json:
        nonblocking = bool(request.get("nonblocking", False))
        lock = FileLock(
            Path(request["path"]),
            exclusive=bool(request.get("exclusive", True)),
            deadline=None if nonblocking else deadline_after(request.get("timeout_seconds")),
            nonblocking=nonblocking,
        )
        try:
            self._locks.put(request["handle"], lock)
        except BaseException:
            lock.close()
            raise
        return {}

    def do_lock_release(self, request: Json) -> Json:
        self._locks.take(request["handle"]).close()
        return {}

    def do_lock_is_active(self, request: Json) -> Json:
        return {"active": lock_is_active(Path(request["path"]))}

    def do_inspect_domain(self, request: Json) -> Json:
        store: FilesystemHostWeightStore = self._stores.get(request["store"]).store
        started = time.perf_counter()
        found = store.inspect_domain()
        elapsed = time.perf_counter() - started
        inspection = dataclasses.asdict(found) | {"elapsed_seconds": elapsed}
        for entry in inspection["inventory"]:
            entry["state"] = entry["state"].value
        return inspection

    def do_read_manifests(self, request: Json) -> Json:
        # What a program that wants to know what is in a domain has to do with the package: list, and parse each.
        store: FilesystemHostWeightStore = self._stores.get(request["store"]).store
        started = time.perf_counter()
        tensors = 0
        for entry in store.inspect_domain().inventory:
            if entry.state.value != "ready":
                continue
            path = store.root / "artifacts" / entry.artifact_key / "manifest.json"
            tensors += len(WeightManifest.from_dict(json.loads(path.read_bytes())).tensors)
        return {"tensors": tensors, "elapsed_seconds": time.perf_counter() - started}

    def do_inspect_artifact(self, request: Json) -> Json:
        store: FilesystemHostWeightStore = self._stores.get(request["store"]).store
        seen = store.inspect_artifact(
            parse_identity(request["identity"]),
            validation=ValidationLevel(request.get("validation", "manifest_and_metadata")),
        )
        return {
            "artifact_key": seen.artifact_key,
            "status": seen.status.value,
            "size_bytes": seen.size_bytes,
            "manifest": None if seen.manifest is None else seen.manifest.canonical_bytes.decode("ascii"),
            "publication_id": seen.publication_id,
            "backing_fingerprint": seen.backing_fingerprint,
            "failure": failure_fields(seen.failure),
            "build_lock_active": seen.build_lock_active,
            "artifact_lock_active": seen.artifact_lock_active,
        }

    def do_cleanup(self, request: Json) -> Json:
        store: FilesystemHostWeightStore = self._stores.get(request["store"]).store
        return {"failure": failure_fields(store.cleanup(parse_identity(request["identity"])))}

    def do_resolve(self, request: Json) -> Json:
        """A runtime over an open store, or over policies of its own (so that their refusal can be seen)."""
        mode = RuntimeMode(request["mode"])
        identity = None if request.get("identity") is None else parse_identity(request["identity"])
        producer: Producer | None = None
        if request.get("production") is not None:
            assert identity is not None, "a producer needs an identity"
            producer = Producer(identity, request["production"], self._emit)
        opened: OpenStore | None = self._stores.get(request["store"]) if request.get("store") else None
        if opened is not None:
            policies: Policies | None = opened.policies
        else:
            policies = Policies.of(request["domain"]) if request.get("domain") is not None else None
        if policies is None:
            config = HostWeightRuntimeConfig(mode=mode)
        else:
            wait = policies.wait
            if request.get("timeout_seconds") is not None:
                wait = WaitPolicy(request["timeout_seconds"])
            integrity = policies.integrity
            if request.get("validation") is not None:
                level = ValidationLevel(request["validation"])
                integrity = dataclasses.replace(integrity, local_lookup=level)
            config = HostWeightRuntimeConfig(
                mode=mode,
                domain=policies.domain,
                capacity=policies.capacity,
                integrity=integrity,
                wait=wait,
                production=ProductionPolicy(allow_local_build=request.get("allow_local_build", True)),
            )
        if opened is not None and mode is not RuntimeMode.DISABLED:
            runtime = HostWeightRuntime(config, opened.store)
        else:
            runtime = HostWeightRuntime.from_config(config)
        resolution = runtime.resolve(identity, producer=producer)
        content = None if resolution.lease is None else self._show_lease(resolution.lease, request)
        return {
            "outcome": resolution.report.outcome.value,
            "attempts": [
                {
                    "stage": attempt.stage.value,
                    "result": attempt.result.value,
                    "action": attempt.action.value,
                    "failure": failure_fields(attempt.failure),
                }
                for attempt in resolution.report.attempts
            ],
            "elapsed_seconds": resolution.report.elapsed_seconds,
            "content": content,
        }


def main() -> None:
    if "--versions" in sys.argv[2:]:
        print(json.dumps(environment()))
        return
    wire = Wire()
    driver = Driver(wire.send)

    def serve(request: Json) -> None:
        try:
            reply = {"id": request["id"], "ok": True, "result": driver.handle(request)}
        except BaseException as error:  # every request is answered, whatever happened to it
            reply = {"id": request["id"], "error": error_fields(error)}
        wire.send(reply)

    wire.send({"event": "ready", **environment()})
    for line in sys.stdin.buffer:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()
    # Threads can be inside a lock wait that never ends; the kernel drops what they hold.
    os._exit(0)


if __name__ == "__main__":
    main()
