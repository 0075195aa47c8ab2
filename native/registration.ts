/**
 * The part of the addon's face that registers payload pages with a GPU: mappings, what of them is in memory,
 * and the CUDA driver, found at run time. Nothing of CUDA is needed to build or load the addon.
 */

/** A file mapped read-only and shared. It stays mapped until `unmap`, also when nobody refers to it any more. */
export interface Mapping {
  readonly mapping: unique symbol;
}

/** A thread of its own for all calls into one driver; a call that never returns holds only this thread. */
export interface CudaThread {
  readonly cudaThread: unique symbol;
}

export interface LibraryAttempt {
  readonly name: string;
  readonly reason: string;
}

export interface LoadedLibrary {
  /** Null: none of those that were tried. */
  readonly path: string | null;
  /** It says of itself that it imitates a driver. */
  readonly simulated: boolean;
  /** What was tried before, in vain. */
  readonly attempts: readonly LibraryAttempt[];
}

/** What the driver answered. Code 0 is success; the others are CUresult of the public header. */
export interface CudaStatus {
  /** The entry point, without its version. */
  readonly call: string;
  readonly code: number;
  readonly name: string;
  readonly text: string;
}

export interface CudaDevice {
  /** Among the devices that this process may see. */
  readonly index: number;
  readonly name: string;
  /** As nvidia-smi writes it. */
  readonly uuid: string;
  readonly pciAddress: string;
  readonly totalBytes: number;
  /** Attribute 113: pages may be registered that this process can only read. */
  readonly readOnlyRegister: boolean;
}

export interface GpuProcesses {
  readonly path: string | null;
  readonly attempts: readonly LibraryAttempt[];
  /** 0, or why the library did not answer, as nvmlReturn_t. */
  readonly code: number;
  /** Version of the kernel driver. */
  readonly driver: string | null;
  readonly processes: readonly {
    readonly uuid: string;
    readonly pid: number;
    readonly usedBytes: number | null;
  }[];
}

export interface RegistrationCalls {
  pageSize(): number;
  /** mmap(2), PROT_READ and MAP_SHARED, of whole pages from offset 0. The descriptor may be closed afterwards. */
  mapReadOnly(fd: number, lengthBytes: number): Mapping;
  /** Only when nothing of it is registered any more. */
  unmap(mapping: Mapping): void;
  /**
   * mincore(2): the share of pages in memory (0 to 1) for each of `buckets` equal parts of a range of whole
   * pages, off the main thread. For a file that we may not write the kernel answers 1 everywhere.
   */
  residency(mapping: Mapping, offset: number, length: number, buckets: number): Promise<number[]>;
  /** cachestat(2) of a range of a file (length 0: to its end); null where this kernel has no such call. */
  pageCache(
    fd: number,
    offset: number,
    length: number,
  ): {
    readonly cachedBytes: number;
    readonly dirtyBytes: number;
    readonly writebackBytes: number;
  } | null;
  /** Reads a range of whole pages into memory, off the main thread; see Progress. */
  prefault(mapping: Mapping, offset: number, length: number, progress?: BigInt64Array): Promise<void>;

  cudaThread(): CudaThread;
  /** Loads the first of `libraries` (names or paths, as dlopen(3) takes them) that is a driver. Calls nothing in it. */
  cudaLoad(thread: CudaThread, libraries: readonly string[]): Promise<LoadedLibrary>;
  /** cuInit, and the newest CUDA version that the driver knows: 13000 is 13.0. */
  cudaInitialise(thread: CudaThread): Promise<CudaStatus & { readonly driverVersion: number }>;
  cudaDevices(thread: CudaThread): Promise<CudaStatus & { readonly devices: readonly CudaDevice[] }>;
  /** Retains the device's primary context and makes it the thread's. */
  cudaOpen(thread: CudaThread, index: number): Promise<CudaStatus>;
  /** Registers exactly these whole pages, for reading only. */
  cudaRegister(thread: CudaThread, mapping: Mapping, offset: number, length: number): Promise<CudaStatus>;
  /** Takes the same range as the register call did. */
  cudaUnregister(thread: CudaThread, mapping: Mapping, offset: number, length: number): Promise<CudaStatus>;
  cudaClose(thread: CudaThread): Promise<CudaStatus>;
  /** Compute processes of every GPU, from the first of `libraries` that is NVIDIA's management library. */
  gpuProcesses(libraries: readonly string[]): Promise<GpuProcesses>;

  /** _exit(2): no exit handlers and no destructors, which could wait for a thread that is stuck in the driver. */
  exitNow(code: number): never;
}
