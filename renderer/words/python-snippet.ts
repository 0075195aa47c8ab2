/** Python that opens an artifact's files with the `safetensors` package, ready to be pasted. */
export function pythonSnippet(path: string, fileNames: readonly string[]): string {
  const names = fileNames.filter((name) => name.endsWith('.safetensors'));
  // A JSON string is a Python string too.
  const files =
    names.length > 0 && names.length <= 4
      ? `[\n${names.map((name) => `    folder / ${JSON.stringify(name)},\n`).join('')}]`
      : 'sorted(folder.rglob("*.safetensors"))';
  return `from pathlib import Path
from safetensors import safe_open

folder = Path(${JSON.stringify(path)})
for file in ${files}:
    with safe_open(file, framework="pt") as weights:
        for name in weights.keys():
            tensor = weights.get_tensor(name)
            print(name, tuple(tensor.shape), tensor.dtype)
`;
}
