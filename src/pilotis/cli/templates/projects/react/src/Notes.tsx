import { useState, type FormEvent } from "react";
import { useFunction, useMember, useMutation, useRows } from "@pilotis/react";
import { pilotis } from "./pilotis";

const notes = pilotis.rows("notes");

export function Notes() {
  const { member, status } = useMember();
  const { rows, error } = useRows(notes.all().orderBy("created_at"));
  const check = useMutation((id: string, done: boolean) => notes.update(id, { done }));
  return (
    <>
      <h1>Notes</h1>
      <ul>
        {rows.map((note) => (
          <li key={note.id}>
            <input type="checkbox" checked={note.data.done ?? false} onChange={(event) => void check.run(note.id, event.target.checked).catch(() => {})} />
            <span>{note.data.text}</span>
          </li>
        ))}
      </ul>
      {status === "ready" && (member ? <Write /> : <SignIn />)}
      <p role="alert">{error?.message ?? check.error?.message}</p>
    </>
  );
}

function SignIn() {
  const [login_id, setName] = useState("");
  const [password, setPassword] = useState("");
  const signIn = useMutation(() => pilotis.members.signIn({ login_id, password }));
  const signUp = useMutation(() => pilotis.members.signUp({ login_id, password }));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn.run().catch(() => {});
  };
  return (
    <form onSubmit={submit}>
      <input placeholder="Name" autoComplete="username" required value={login_id} onChange={(event) => setName(event.target.value)} />
      <input placeholder="Password" type="password" autoComplete="current-password" required value={password} onChange={(event) => setPassword(event.target.value)} />
      <div>
        <button>Sign in</button>
        <button type="button" onClick={() => void signUp.run().catch(() => {})}>Sign up</button>
        <button type="button" onClick={() => void pilotis.members.guest()}>Go on as a guest</button>
      </div>
      <p role="alert">{(signIn.error ?? signUp.error)?.message}</p>
    </form>
  );
}

function Write() {
  const [text, setText] = useState("");
  const add = useMutation(() => notes.create({ text, done: false }));
  const greet = useFunction<string>("greet");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    await add.run().then(() => setText(""), () => {});
  };
  return (
    <>
      <form className="add" onSubmit={submit}>
        <input placeholder="What is to be done?" required value={text} onChange={(event) => setText(event.target.value)} />
        <button>Add</button>
      </form>
      <p>
        <button onClick={() => void greet.run({ name: "Ada" }).catch(() => {})}>Call a function</button> <output>{greet.result}</output>
      </p>
      <p>
        <button onClick={() => void pilotis.members.signOut()}>Sign out</button>
      </p>
      <p role="alert">{(add.error ?? greet.error)?.message}</p>
    </>
  );
}
