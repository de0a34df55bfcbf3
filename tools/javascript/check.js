/**
 * Check the types of the console's modules as `tsc -p` does, and each `useLoad(load, inputs)`: where `load` uses a
 * variable of its component that `inputs` do not name, what is shown would stay that of an older value. Names what is
 * wrong and exits with 1.
 */
import { fileURLToPath } from "node:url";
import ts from "typescript";

const folder = fileURLToPath(new URL(".", import.meta.url));
const config = ts.readConfigFile(`${folder}tsconfig.json`, ts.sys.readFile);
const { fileNames, options, errors } = ts.parseJsonConfigFileContent(config.config, ts.sys, folder);
const program = ts.createProgram(fileNames, options);
const checker = program.getTypeChecker();

/** @param {ts.Node} node @param {(one: ts.Identifier) => void} visit */
function identifiers(node, visit) {
  if (ts.isIdentifier(node)) visit(node);
  ts.forEachChild(node, (child) => identifiers(child, visit));
}

/** @param {ts.Node} node @param {ts.Node} inside */
const contains = (node, inside) => {
  for (let one = /** @type {ts.Node | undefined} */ (inside); one; one = one.parent) if (one === node) return true;
  return false;
};

/** What a `useState`'s setter or a `useRef` names never changes. @param {ts.Node} declared */
function isConstant(declared) {
  const holder = ts.isBindingElement(declared) ? declared.parent.parent : declared;
  const call = ts.isVariableDeclaration(holder) && holder.initializer;
  if (!call || !ts.isCallExpression(call)) return false;
  const name = call.expression.getText();
  return (
    name === "useRef" ||
    (name === "useState" && ts.isBindingElement(declared) && declared.parent.elements[1] === declared)
  );
}

/** @param {ts.CallExpression} call */
function missing(call) {
  const [load, inputs] = call.arguments;
  const named = new Set();
  identifiers(inputs, (one) => named.add(checker.getSymbolAtLocation(one)));
  const found = new Set();
  identifiers(load, (one) => {
    const symbol = ts.isShorthandPropertyAssignment(one.parent)
      ? checker.getShorthandAssignmentValueSymbol(one.parent)
      : checker.getSymbolAtLocation(one);
    const declared = symbol?.valueDeclaration;
    if (!symbol || !declared || named.has(symbol) || contains(load, declared) || isConstant(declared)) return;
    const isVariable =
      ts.isVariableDeclaration(declared) ||
      ts.isBindingElement(declared) ||
      ts.isParameter(declared) ||
      ts.isFunctionDeclaration(declared);
    const component = ts.findAncestor(declared, ts.isFunctionLike);
    if (isVariable && component && contains(component, call) && declared !== component) found.add(one.text);
  });
  return [...found];
}

const wrong = [...errors, ...ts.getPreEmitDiagnostics(program)].map((one) =>
  ts.formatDiagnostic(one, {
    getCurrentDirectory: () => folder,
    getCanonicalFileName: (name) => name,
    getNewLine: () => "\n",
  }),
);
for (const name of fileNames) {
  const file = /** @type {ts.SourceFile} */ (program.getSourceFile(name));
  /** @param {ts.Node} node */
  const visit = (node) => {
    if (ts.isCallExpression(node) && node.expression.getText(file) === "useLoad") {
      const names = missing(node);
      const { line } = file.getLineAndCharacterOfPosition(node.getStart(file));
      if (names.length) wrong.push(`${name}(${line + 1}): the inputs of useLoad lack ${names.join(", ")}\n`);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
}
process.stdout.write(wrong.join(""));
process.exitCode = fileNames.length < 50 || wrong.length ? 1 : 0;
