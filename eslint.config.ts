import { dirname, relative, resolve } from 'node:path';
import js from '@eslint/js';
import type { ESLint, Rule } from 'eslint';
import svelte from 'eslint-plugin-svelte';
import tseslint from 'typescript-eslint';

/**
 * The map of the house: what each part may import besides itself and Node. Imports point down, and the five
 * parts in the middle do not know each other. There is no list of exceptions.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  'src/contract': [],
  native: [],
  'src/store': ['src/contract/failure.ts', 'src/contract/bytes.ts', 'native'],
  'src/production': ['src/store', 'src/contract', 'native'],
  'src/registration': ['src/store', 'src/contract', 'native'],
  'src/catalog': ['src/store', 'src/contract', 'native'],
  'src/cleanup': ['src/store', 'src/contract', 'native'],
  'src/planner': ['src/store', 'src/contract'],
  'src/host': [
    'src/production',
    'src/registration',
    'src/catalog',
    'src/cleanup',
    'src/planner',
    'src/store',
    'src/contract',
    'native',
  ],
  'src/cli': ['src/host', 'src/production', 'src/cleanup', 'src/store', 'src/contract', 'native'],
  electron: ['src/host', 'src/contract'],
  renderer: ['src/contract'],
};

const root = import.meta.dirname;

function partOf(path: string): string | undefined {
  return Object.keys(mayImport).find((part) => path === part || path.startsWith(`${part}/`));
}

const layers: Rule.RuleModule = {
  meta: { type: 'problem', schema: [] },
  create(context) {
    const here = relative(root, context.filename);
    const part = partOf(here);
    if (part === undefined) return {};
    const check = (node: Rule.Node, source: unknown): void => {
      if (typeof source !== 'string' || !/^[.#]/.test(source)) return;
      const target =
        source === '#native' ? 'native/index.ts' : relative(root, resolve(dirname(context.filename), source));
      const allowed = [part, ...(mayImport[part] ?? [])];
      if (allowed.some((prefix) => target === prefix || target.startsWith(`${prefix}/`))) return;
      context.report({ node, message: `${part} may not import ${target}: see the map in eslint.config.ts` });
    };
    return {
      ImportDeclaration: (node) => check(node, node.source.value),
      ExportNamedDeclaration: (node) => check(node, node.source?.value),
      ExportAllDeclaration: (node) => check(node, node.source.value),
      ImportExpression: (node) => check(node, node.source.type === 'Literal' ? node.source.value : undefined),
    };
  },
};

const house: ESLint.Plugin = { rules: { layers } };

export default tseslint.config(
  { ignores: ['node_modules', 'native/build', 'test/.cache', 'test/.tmp', 'dist'] },
  js.configs.recommended,
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: root } },
    plugins: { house },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      'house/layers': 'error',
      eqeqeq: ['error', 'always'],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      '@typescript-eslint/only-throw-error': 'off',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
    },
  },
  ...svelte.configs.recommended,
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: {
      parserOptions: { parser: tseslint.parser, projectService: true, extraFileExtensions: ['.svelte'] },
    },
    rules: {
      // svelte-check reads the types of components; this parser sees their snippets and props as `any`.
      ...tseslint.configs.disableTypeChecked.rules,
      'no-undef': 'off',
      '@typescript-eslint/explicit-module-boundary-types': 'off',
      // All addresses are fragments of the one page.
      'svelte/no-navigation-without-resolve': 'off',
      // Maps and sets that are replaced as a whole, or that nobody looks at, need no proxy.
      'svelte/prefer-svelte-reactivity': 'off',
    },
  },
  {
    files: ['**/*.mjs'],
    ...tseslint.configs.disableTypeChecked,
    languageOptions: {
      parserOptions: { projectService: false },
      globals: { process: 'readonly', console: 'readonly', URL: 'readonly' },
    },
  },
);
