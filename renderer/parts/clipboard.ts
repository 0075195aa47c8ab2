/** Copying, also where the page has no clipboard permission (a tunnel under another name is no secure context). */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea');
  const focused = document.activeElement;
  area.value = text;
  area.className = 'visually-hidden';
  // A modal dialog makes everything outside of it inert, so the text is put beside what has the focus.
  (focused?.closest('dialog') ?? document.body).append(area);
  area.select();
  // Deprecated, and still the only way there is without that permission.
  const isCopied = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}
