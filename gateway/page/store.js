// The chats, kept in this browser (IndexedDB). Where the browser keeps nothing (a private window),
// they live as long as the page, and `kept` says so.

const NAME = 'trireme', CHATS = 'chats';

function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function open() {
  const request = indexedDB.open(NAME, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(CHATS, { keyPath: 'id' });
  return result(request);
}

export class Store {
  #db = null;
  kept = false;

  async open() {
    try {
      this.#db = await open();
      this.kept = true;
    } catch {
      this.kept = false;
    }
  }

  #chats(mode) {
    return this.#db.transaction(CHATS, mode).objectStore(CHATS);
  }

  // Newest first.
  async all() {
    if (!this.kept) return [];
    const chats = await result(this.#chats('readonly').getAll());
    return chats.sort((a, b) => b.updated - a.updated);
  }

  // False when the browser has no room for it.
  async put(chat) {
    if (!this.kept) return true;
    try {
      await result(this.#chats('readwrite').put(chat));
      return true;
    } catch {
      return false;
    }
  }

  async delete(chat) {
    if (this.kept) await result(this.#chats('readwrite').delete(chat.id));
  }

  async clear() {
    if (this.kept) await result(this.#chats('readwrite').clear());
  }
}
