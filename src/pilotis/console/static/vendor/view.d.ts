/** What the console uses of the libraries, for those who check its types. */
export interface Signal<T> {
  value: T;
  peek(): T;
  subscribe(read: (value: T) => void): () => void;
}
export function signal<T>(value: T): Signal<T>;
export function computed<T>(read: () => T): { readonly value: T; peek(): T };
export function html(strings: TemplateStringsArray, ...values: unknown[]): any;
export function render(node: any, parent: Element): void;
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((old: T) => T)) => void];
export function useEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export function useLayoutEffect(effect: () => unknown, inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs: readonly unknown[]): T;
export function useCallback<T>(callback: T, inputs: readonly unknown[]): T;
export function useRef<T>(initial: T): { current: T };
export function useId(): string;
