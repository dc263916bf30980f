// An OpenID Connect provider for one resource server: whoever types a name is that person, and asks for what they consent to.
// node provider.mjs MODULE PORT
import { pathToFileURL } from "node:url";

const [module, port] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(module).href);
const scopes = ["read", "run", "admin"];
const provider = new Provider(`http://127.0.0.1:${port}`, {
  scopes: ["openid", "offline_access", ...scopes],
  pkce: { required: () => true },
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, audience) => ({ audience, scope: scopes.join(" "), accessTokenFormat: "jwt" }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
