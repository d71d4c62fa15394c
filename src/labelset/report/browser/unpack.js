// Packed arrays: base64 -> inflate -> typed array, each once.

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };
const unpacked = new WeakMap();

function bytes(base64) {
  const text = atob(base64);
  const out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
}

async function inflate(base64) {
  const stream = new Blob([bytes(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

async function unpackedFrom(packed) {
  const buffer = await inflate(packed.data);
  if (packed.kind === "json") return JSON.parse(new TextDecoder().decode(buffer));
  return new KINDS[packed.kind](buffer);
}

// a promise of the array; null stays null
function unpack(packed) {
  if (packed === null || packed === undefined) return Promise.resolve(null);
  if (!unpacked.has(packed)) unpacked.set(packed, unpackedFrom(packed));
  return unpacked.get(packed);
}

async function unpackAll(packed) {
  const names = Object.keys(packed);
  const values = await Promise.all(names.map((name) => unpack(packed[name])));
  return Object.fromEntries(names.map((name, at) => [name, values[at]]));
}
