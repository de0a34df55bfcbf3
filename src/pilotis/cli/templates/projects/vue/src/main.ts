import { createApp } from "vue";
import Notes from "./Notes.vue";
import "./style.css";

createApp(Notes).mount("#app");
