// What the reader has set: the dialog, and the values that requests are made of. They are kept in
// localStorage; the API key for the life of the tab alone.

const NUMBERS = ['temperature', 'top_p', 'max_tokens', 'seed'];
const PLACE = 'trireme-settings', KEY_PLACE = 'trireme-key';

// A browser that keeps nothing throws; the values then live as long as the page.
function load(storage, place) {
  try {
    return window[storage].getItem(place) ?? '';
  } catch {
    return '';
  }
}

function save(storage, place, value) {
  try {
    window[storage].setItem(place, value);
  } catch {
    return;
  }
}

export class Settings {
  system = '';
  key = '';
  model = '';
  numbers = {};

  constructor() {
    this.key = load('sessionStorage', KEY_PLACE);
    const kept = JSON.parse(load('localStorage', PLACE) || '{}');
    const { system = '', model = '', numbers = {} } = kept;
    Object.assign(this, { system, model, numbers });
  }

  save() {
    const { system, model, numbers } = this;
    save('localStorage', PLACE, JSON.stringify({ system, model, numbers }));
    save('sessionStorage', KEY_PLACE, this.key);
  }

  // Only what was set: the rest is the server's to choose.
  request() {
    return { ...this.numbers };
  }
}

// Shows the dialog with the values; takes them over when Done, Escape or a click beside it ends it. Not in its close event,
// which comes a task after the dialog has gone: a question sent in between would go out with the old ones.
export function bindSettings(dialog, form, settings, onChange) {
  const fields = form.elements;
  const fill = () => {
    fields.system.value = settings.system;
    fields.key.value = settings.key;
    for (const name of NUMBERS) fields[name].value = settings.numbers[name] ?? '';
  };
  const take = () => {
    settings.system = fields.system.value.trim();
    settings.key = fields.key.value.trim();
    settings.numbers = {};
    for (const name of NUMBERS) {
      const value = fields[name].value;
      if (value !== '' && fields[name].validity.valid) settings.numbers[name] = Number(value);
    }
    settings.save();
    onChange();
  };
  form.addEventListener('submit', take);
  dialog.addEventListener('cancel', take);
  dialog.addEventListener('click', event => {
    if (event.target === dialog) form.requestSubmit(form.elements['settings-done']);
  });
  return () => {
    fill();
    dialog.showModal();
  };
}
