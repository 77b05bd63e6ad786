// Lists the tools and calls the first one, by the TypeScript client of either generation: call.mjs sdk|client URL TOKEN
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [generation, url, token] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(process.cwd(), "node_modules/@modelcontextprotocol", path)));
const packages = {
  sdk: async () => ({
    ...(await load("sdk/dist/esm/client/index.js")),
    ...(await load("sdk/dist/esm/client/streamableHttp.js")),
  }),
  client: () => load("client/dist/index.mjs"),
};
const { Client, StreamableHTTPClientTransport } = await packages[generation]();
const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
await client.connect(
  new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }),
);
const { tools } = await client.listTools();
const names = tools.map((tool) => tool.name);
const good = await client.callTool({ name: names[0], arguments: {} });
const bad = await client.callTool({ name: names[0], arguments: { nonsense: 1 } });
console.log(JSON.stringify({ names, good, bad }));
await client.close();
