import { mount } from "svelte";
import Notes from "./Notes.svelte";
import "./style.css";

mount(Notes, { target: document.getElementById("app")! });
