// Sums what the suites left behind (vitest's JSON reports) into one line, and names what failed above it. A
// suite without a report, or a file that could not even be loaded, counts as one failure. Any Node runs this.
import { existsSync, readFileSync } from 'node:fs';

const total = { passed: 0, failed: 0, skipped: 0 };

function count(report) {
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

for (const path of process.argv.slice(2)) {
  if (existsSync(path) && count(JSON.parse(readFileSync(path, 'utf8')))) continue;
  total.failed += 1;
  console.log(`failed: ${path} was not written, or says that the suite failed`);
}
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
console.log(`${total.passed} passed, ${total.failed} failed${skipped}`);
if (total.failed > 0) process.exitCode = 1;
