import { useState } from "react";
import { Button, FlatList, StyleSheet, Switch, Text, TextInput, View } from "react-native";
import { PilotisProvider, useFunction, useMember, useMutation, useRows } from "@pilotis/react";
import { pilotis } from "./pilotis";

const notes = pilotis.rows("notes");

export function App() {
  return (
    <PilotisProvider client={pilotis}>
      <Notes />
    </PilotisProvider>
  );
}

function Notes() {
  const { member, status } = useMember();
  const { rows, error } = useRows(notes.all().orderBy("created_at"));
  const check = useMutation((id: string, done: boolean) => notes.update(id, { done }));
  return (
    <View style={styles.page}>
      <Text style={styles.title}>Notes</Text>
      <FlatList
        data={rows}
        keyExtractor={(note) => note.id}
        renderItem={({ item: note }) => (
          <View style={styles.note}>
            <Switch value={note.data.done ?? false} onValueChange={(done) => void check.run(note.id, done).catch(() => {})} />
            <Text style={styles.text}>{note.data.text}</Text>
          </View>
        )}
      />
      {status === "ready" && (member ? <Write /> : <SignIn />)}
      <Text style={styles.error}>{(error ?? check.error)?.message}</Text>
    </View>
  );
}

function SignIn() {
  const [login_id, setName] = useState("");
  const [password, setPassword] = useState("");
  const signIn = useMutation(() => pilotis.members.signIn({ login_id, password }));
  const signUp = useMutation(() => pilotis.members.signUp({ login_id, password }));
  return (
    <View>
      <TextInput style={styles.input} placeholder="Name" autoCapitalize="none" value={login_id} onChangeText={setName} />
      <TextInput style={styles.input} placeholder="Password" secureTextEntry value={password} onChangeText={setPassword} />
      <Button title="Sign in" onPress={() => void signIn.run().catch(() => {})} />
      <Button title="Sign up" onPress={() => void signUp.run().catch(() => {})} />
      <Button title="Go on as a guest" onPress={() => void pilotis.members.guest()} />
      <Text style={styles.error}>{(signIn.error ?? signUp.error)?.message}</Text>
    </View>
  );
}

function Write() {
  const [text, setText] = useState("");
  const add = useMutation(() => notes.create({ text, done: false }));
  const greet = useFunction<string>("greet");
  return (
    <View>
      <TextInput style={styles.input} placeholder="What is to be done?" value={text} onChangeText={setText} />
      <Button title="Add" onPress={() => void add.run().then(() => setText(""), () => {})} />
      <Button title="Call a function" onPress={() => void greet.run({ name: "Ada" }).catch(() => {})} />
      <Text>{greet.result}</Text>
      <Button title="Sign out" onPress={() => void pilotis.members.signOut()} />
      <Text style={styles.error}>{(add.error ?? greet.error)?.message}</Text>
    </View>
  );
}

const styles = StyleSheet.create({
  page: { flex: 1, padding: 24, paddingTop: 64, gap: 12 },
  title: { fontSize: 28, fontWeight: "600" },
  note: { flexDirection: "row", alignItems: "center", gap: 12, paddingVertical: 8 },
  text: { flexShrink: 1 },
  input: { borderWidth: 1, borderColor: "#999", borderRadius: 6, padding: 10, marginBottom: 8 },
  error: { color: "#c02626" },
});
