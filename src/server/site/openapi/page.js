"use strict";
// Shows /openapi.json. Everything is put in as text, never as markup.

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A schema in a few words; what it refers to is one level deep.
function words(schema, schemas, depth) {
  if (!schema || Object.keys(schema).length === 0) return "any";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return depth > 0 ? words(schemas[name], schemas, depth - 1) : name;
  }
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  const several = schema.anyOf || schema.oneOf;
  if (several) return several.map((one) => words(one, schemas, depth)).join(" | ");
  if (schema.type === "array") return words(schema.items, schemas, depth - 1) + "[]";
  if (schema.properties) {
    const required = schema.required || [];
    const members = Object.entries(schema.properties).map(([name, value]) => {
      const mark = required.includes(name) ? "" : "?";
      return "  " + name + mark + ": " + words(value, schemas, depth - 1).replaceAll("\n", "\n  ");
    });
    return "{\n" + members.join(",\n") + "\n}";
  }
  return schema.format || [].concat(schema.type || "any").join(" | ");
}

function curl(method, path, operation) {
  const line = ["curl"];
  if (method !== "get") line.push("-X " + method.toUpperCase());
  if (operation.security) line.push("-H \"X-Session-API-Key: $KEY\"");
  if (operation.requestBody && operation.requestBody.content["application/json"]) {
    line.push("-H 'Content-Type: application/json' -d '{}'");
  }
  line.push("'" + location.origin + path + "'");
  return line.join(" ");
}

function parameters(operation) {
  const table = element("table");
  for (const parameter of operation.parameters || []) {
    const row = table.appendChild(element("tr"));
    row.appendChild(element("td")).appendChild(element("code", "", parameter.name + (parameter.required ? "" : "?")));
    row.appendChild(element("td", "soft", words(parameter.schema, {}, 0)));
    row.appendChild(element("td", "", parameter.description || "in the path"));
  }
  return table;
}

function show(method, path, operation, schemas) {
  const one = element("details");
  const head = one.appendChild(element("summary"));
  head.appendChild(element("span", "method", method.toUpperCase()));
  head.appendChild(element("code", "", path));
  head.appendChild(element("span", "soft", operation.summary));
  const rest = one.appendChild(element("div"));
  rest.appendChild(element("pre", "", curl(method, path, operation)));
  if (operation.parameters) {
    rest.appendChild(element("h3", "", "Parameters"));
    rest.appendChild(parameters(operation));
  }
  if (operation.requestBody) {
    rest.appendChild(element("h3", "", "Body"));
    for (const [type, content] of Object.entries(operation.requestBody.content)) {
      rest.appendChild(element("pre", "", type + "\n" + words(content.schema, schemas, 2)));
    }
  }
  rest.appendChild(element("h3", "", "Answers"));
  for (const [status, response] of Object.entries(operation.responses)) {
    const content = Object.entries(response.content || {})
      .map(([type, content]) => type + "\n" + words(content.schema, schemas, status < "300" ? 2 : 0));
    rest.appendChild(element("pre", "", [status + " " + response.description].concat(content).join("\n")));
  }
  one.dataset.words = (method + " " + path + " " + operation.summary).toLowerCase();
  return one;
}

async function main() {
  const answer = await fetch("/openapi.json");
  const api = await answer.json();
  document.getElementById("about").textContent = api.info.description + " Version " + api.info.version + ".";
  const place = document.getElementById("operations");
  for (const tag of api.tags) {
    const group = place.appendChild(element("section"));
    group.appendChild(element("h2", "", tag.name));
    for (const [path, operations] of Object.entries(api.paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        if (operation.tags.includes(tag.name)) group.appendChild(show(method, path, operation, api.components.schemas));
      }
    }
  }
  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase().split(" ").filter(Boolean);
    for (const one of place.querySelectorAll("details")) {
      one.hidden = !wanted.every((word) => one.dataset.words.includes(word));
    }
    for (const group of place.querySelectorAll("section")) {
      group.hidden = !group.querySelector("details:not([hidden])");
    }
  });
}

main().catch((error) => {
  document.getElementById("about").textContent = "The document could not be read: " + error.message;
});
