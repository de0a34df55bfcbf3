import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { PilotisProvider } from "@pilotis/react";
import { Notes } from "./Notes";
import { pilotis } from "./pilotis";
import "./style.css";

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <PilotisProvider client={pilotis}>
      <Notes />
    </PilotisProvider>
  </StrictMode>,
);
