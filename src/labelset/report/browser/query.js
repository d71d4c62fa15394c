// Queries such as fork & (apple | !knife), read into a tree: the same grammar as labelset.retrieve.

const BARE = /[\p{L}\p{M}\p{N}_\-.:/+#\u200c\u200d]/u;
const DEEPEST = 100;

class QueryError extends Error {
  constructor(problem, at) {
    super(at === undefined ? problem : `${problem} (character ${at + 1})`);
  }
}

function quotedName(query, start) {
  let text = "", at = start + 1;
  while (at < query.length && query[at] !== query[start]) {
    if (query[at] === "\\") at += 1;
    text += query[at] ?? "";
    at += 1;
  }
  if (at >= query.length) throw new QueryError(`this quote ${query[start]} is never closed`, start);
  return { kind: "name", text, at: start, end: at + 1 };
}

function bareName(query, start) {
  let at = start;
  for (const character of query.slice(start)) {
    if (!BARE.test(character)) break;
    at += character.length;
  }
  if (at === start) throw new QueryError(`unexpected ${query[start]}: other names go in quotes`, start);
  return { kind: "name", text: query.slice(start, at), at: start, end: at };
}

function tokensOf(query) {
  const found = [];
  let at = 0;
  while (at < query.length) {
    if (/\s/.test(query[at])) {
      at += 1;
      continue;
    }
    const token = "&|!()".includes(query[at])
      ? { kind: query[at], text: query[at], at, end: at + 1 }
      : `'"`.includes(query[at]) ? quotedName(query, at) : bareName(query, at);
    found.push(token);
    at = token.end;
  }
  found.push({ kind: "end", text: "the end of the query", at: query.length });
  return found;
}

// a tree of {kind: "name" | "!" | "&" | "|"}: | binds least, then &, then !
function parseQuery(query) {
  const tokens = tokensOf(query);
  let place = 0, depth = 0;

  function chain(kind, part) {
    const parts = [part()];
    while (tokens[place].kind === kind) {
      place += 1;
      parts.push(part());
    }
    return parts.length === 1 ? parts[0] : { kind, parts };
  }
  const either = () => chain("|", () => chain("&", single));

  function single() {
    let negated = false;
    while (tokens[place].kind === "!") {
      place += 1;
      negated = !negated;
    }
    const token = tokens[place++];
    let part;
    if (token.kind === "name") part = token;
    else if (token.kind === "(") part = group(token);
    else throw new QueryError(`expected a name, ! or (, got ${token.text}`, token.at);
    return negated ? { kind: "!", parts: [part] } : part;
  }

  function group(opening) {
    depth += 1;
    if (depth > DEEPEST) throw new QueryError(`brackets go ${DEEPEST} deep at most`, opening.at);
    const inside = either();
    if (tokens[place].kind === "end") throw new QueryError("this bracket is never closed", opening.at);
    if (tokens[place].kind !== ")") misplaced(tokens[place]);
    place += 1;
    depth -= 1;
    return inside;
  }

  function misplaced(token) {
    if (token.kind === ")") throw new QueryError("this bracket was never opened", token.at);
    throw new QueryError(`expected & or | before ${token.text}; names with spaces go in quotes`, token.at);
  }

  const tree = either();
  if (tokens[place].kind !== "end") misplaced(tokens[place]);
  return tree;
}
