"use server";
import { isApiError } from "@pilotis/client";
import { refresh } from "next/cache";
import { pilotis } from "../lib/pilotis";

export interface Result {
  error?: string;
  greeting?: string;
}

/** Does what a form asks for, shows the page again, and tells what went wrong. */
async function attempt(work: (client: Awaited<ReturnType<typeof pilotis>>) => Promise<Result | unknown>): Promise<Result> {
  try {
    const result = await work(await pilotis());
    refresh();
    return (result ?? {}) as Result;
  } catch (error) {
    if (!isApiError(error)) throw error;
    return { error: error.message };
  }
}

export async function act(_: Result, form: FormData): Promise<Result> {
  const text = (name: string) => String(form.get(name) ?? "");
  const account = { login_id: text("login_id"), password: text("password") };
  return attempt(async (client) => {
    switch (text("action")) {
      case "sign-in":
        return void (await client.members.signIn(account));
      case "sign-up":
        return void (await client.members.signUp(account));
      case "guest":
        return void (await client.members.guest());
      case "sign-out":
        return void (await client.members.signOut());
      case "add":
        return void (await client.rows("notes").create({ text: text("text"), done: false }));
      case "check":
        return void (await client.rows("notes").update(text("id"), { done: text("done") === "true" }));
      case "greet":
        return { greeting: await client.functions.invoke<string>("greet", { name: "Ada" }) };
    }
  });
}
