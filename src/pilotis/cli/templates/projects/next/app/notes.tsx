"use client";
import { startTransition, useActionState } from "react";
import { act } from "./actions";

interface Note {
  id: string;
  text?: string | null;
  done?: boolean | null;
}

export function Notes({ notes, isMember }: { notes: Note[]; isMember: boolean }) {
  const [result, submit] = useActionState(act, {});
  const check = (note: Note) => {
    const form = new FormData();
    for (const [name, value] of Object.entries({ action: "check", id: note.id, done: String(!note.done) })) form.set(name, value);
    startTransition(() => submit(form));
  };
  return (
    <>
      <h1>Notes</h1>
      <ul>
        {notes.map((note) => (
          <li key={note.id}>
            <input type="checkbox" checked={note.done ?? false} onChange={() => check(note)} />
            <span>{note.text}</span>
          </li>
        ))}
      </ul>
      {isMember ? (
        <>
          <form className="add" action={submit}>
            <input name="text" placeholder="What is to be done?" required />
            <button name="action" value="add">Add</button>
          </form>
          <form action={submit}>
            <p>
              <button name="action" value="greet">Call a function</button> <output>{result.greeting}</output>
            </p>
          </form>
          <form action={submit}>
            <p>
              <button name="action" value="sign-out">Sign out</button>
            </p>
          </form>
        </>
      ) : (
        <form action={submit}>
          <input name="login_id" placeholder="Name" autoComplete="username" required />
          <input name="password" placeholder="Password" type="password" autoComplete="current-password" required />
          <div>
            <button name="action" value="sign-in">Sign in</button>
            <button name="action" value="sign-up">Sign up</button>
            <button name="action" value="guest" formNoValidate>Go on as a guest</button>
          </div>
        </form>
      )}
      <p role="alert">{result.error}</p>
    </>
  );
}
