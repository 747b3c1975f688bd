// The form for a server that has a token.

import { byId, say } from "./dom.js";
import { signIn } from "./api.js";

/** `entered()` is called once the server knows us. */
export function setUpSignIn(entered) {
  byId("sign-in").addEventListener("submit", async (event) => {
    event.preventDefault();
    say("sign-in-error", "");
    try {
      await signIn(byId("token").value);
    } catch (failure) {
      say("sign-in-error", failure.status === 401 ? "This is not the token." : failure.message);
      byId("token").select();
      return;
    }
    byId("token").value = "";
    byId("sign-in").hidden = true;
    byId("main").hidden = false;
    entered();
  });
}

export function askToSignIn() {
  byId("main").hidden = true;
  byId("sign-in").hidden = false;
  byId("token").focus();
}
