// The vendored packages are links, which are followed within the project alone.
export default { turbopack: { root: import.meta.dirname }, outputFileTracingRoot: import.meta.dirname };
