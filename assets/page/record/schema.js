// Checks of a value against a JSON Schema, of which the keywords are used that describe a trace.

// Where the first fault of a value is, such as ".steps[3].path"; null if it has none. Missing fields get their defaults.
// `checks`: further checks, by the name of a definition or by the keyword "check", which return a fault in the same form; `maxFields`: of an object.
export function faultOf(value, schema, definitions, checks, maxFields) {
  const fault = (part, known) => faultOf(part, known, definitions, checks, maxFields);
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return fault(value, definitions[name]) ?? checks[name]?.(value) ?? null;
  }
  if (schema.check) return checks[schema.check](value);
  if (schema.anyOf) return value === null ? null : fault(value, schema.anyOf[0]);
  if (!TYPES[schema.type]?.(value, schema)) return schema.type ? "" : null;
  if (schema.type === "array") return first(value.keys(), (i) => located(`[${i}]`, fault(value[i], schema.items)));
  if (schema.type !== "object") return null;
  if (Object.keys(value).length > maxFields) return "";
  return schema.properties ? fieldFault(value, schema, fault) : first(Object.keys(value), (key) => located(`.${key}`, typeof schema.additionalProperties === "object" ? fault(value[key], schema.additionalProperties) : null));
}

const EMPTY = { array: [], object: {} };
const TYPES = {
  string: (value, { enum: names }) => typeof value === "string" && !/\p{Cs}/u.test(value) && (!names || names.includes(value)),
  boolean: (value) => typeof value === "boolean",
  integer: (value, limits) => Number.isInteger(value) && TYPES.number(value, limits), // also 1.0, which is the same number here
  number: (value, limits) => Number.isFinite(value) && value >= (limits.minimum ?? value) && value <= (limits.maximum ?? value) && value > (limits.exclusiveMinimum ?? Number.NEGATIVE_INFINITY),
  array: (value) => Array.isArray(value),
  object: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
};

function fieldFault(value, { properties, required = [] }, fault) {
  for (const [name, schema] of Object.entries(properties)) {
    if (!Object.hasOwn(value, name) && !required.includes(name)) value[name] = structuredClone(schema.default ?? EMPTY[schema.type] ?? null);
    const found = Object.hasOwn(value, name) ? fault(value[name], schema) : "";
    if (found !== null) return `.${name}${found}`;
  }
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(properties, name));
  return unknown === undefined ? null : `.${unknown}`;
}

function located(place, fault) {
  return fault === null ? null : place + fault;
}

function first(keys, faultAt) {
  for (const key of keys) {
    const found = faultAt(key);
    if (found !== null) return found;
  }
  return null;
}
