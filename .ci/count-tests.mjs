// Sums what the suites left behind (JSON reports of vitest and of Playwright) into one line, and names what failed
// above it. A suite without a report, or a file that could not even be loaded, counts as one failure; so does a
// test that passed only when it was tried again. Any Node runs this.
import { existsSync, readFileSync } from 'node:fs';

const total = { passed: 0, failed: 0, skipped: 0 };

function countVitest(report) {
  total.passed += report.numPassedTests;
  total.failed += report.numFailedTests;
  total.skipped += report.numPendingTests + report.numTodoTests;
  for (const file of report.testResults) {
    const failures = file.assertionResults.filter((test) => test.status === 'failed');
    for (const { fullName } of failures) console.log(`failed: ${file.name}: ${fullName}`);
    if (file.status !== 'failed' || failures.length > 0) continue;
    total.failed += 1;
    console.log(`failed: ${file.name}: ${file.message}`);
  }
  return report.success || total.failed > 0;
}

function countPlaywright({ suites, stats, errors }) {
  total.passed += stats.expected;
  total.failed += stats.unexpected + stats.flaky + errors.length;
  total.skipped += stats.skipped;
  for (const { message } of errors) console.log(`failed: ${message}`);
  for (const suite of suites) namePlaywrightFailures(suite);
  return stats.expected > 0;
}

function namePlaywrightFailures({ file, specs, suites = [] }) {
  for (const { title, tests } of specs) {
    const failure = tests.find(({ status }) => status === 'unexpected' || status === 'flaky');
    if (failure) console.log(`failed: ${file}: ${title} (${failure.status})`);
  }
  for (const suite of suites) namePlaywrightFailures(suite);
}

for (const path of process.argv.slice(2)) {
  if (existsSync(path)) {
    const report = JSON.parse(readFileSync(path, 'utf8'));
    if ('testResults' in report ? countVitest(report) : countPlaywright(report)) continue;
  }
  total.failed += 1;
  console.log(`failed: ${path} was not written, or says that the suite failed`);
}
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
if (total.failed > 0) process.exitCode = 1;
