// The API of this page's server, see /api/openapi.json. A shared file has none.

export class ApiError extends Error {
  constructor(status, { type, message, errors, decision } = {}) {
    super(message ?? `the server answered ${status}`);
    Object.assign(this, { status, type, errors, decision });
  }
}

async function answered(response) {
  if (response.ok) return response.json();
  const { error } = await response.json().catch(() => ({}));
  throw new ApiError(response.status, error);
}

const unreachable = () => {
  throw new ApiError(0, { message: "the server does not answer" });
};

export function address(name, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `api/${name}${query && `?${query}`}`;
}

export async function get(name, parameters, signal) {
  const response = await fetch(address(name, parameters), { signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    return unreachable();
  });
  return answered(response);
}

export async function post(name, body) {
  const { csrf } = await get("about"); // a server that was started again has another one
  const headers = { "content-type": "application/json", "x-foldlog-csrf": csrf };
  const request = { method: "POST", headers, body: JSON.stringify(body) };
  return answered(await fetch(address(name), request).catch(unreachable));
}
