// The steps of a program that walks through a flow: each is one line of output, `ok` or `FAIL` with its name.
let failed = 0;

export function ok(name, good, more = '') {
  if (!good) failed++;
  console.log(good ? 'ok  ' : 'FAIL', name, more);
}

// The call must fail, and `test` must accept its error.
export async function refused(name, call, test = () => true) {
  try {
    await call();
    ok(name, false, 'was accepted');
  } catch (error) {
    ok(name, test(error), error.error ?? error.code ?? error.message);
  }
}

export function finish() {
  process.exit(failed ? 1 : 0);
}
