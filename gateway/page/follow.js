// Keeps the newest text in sight, until the reader scrolls up; again when they are back at the end.

const NEAR = 24; // px

export class Follow {
  #last = 0;
  following = true;

  constructor(scroller, content, back) {
    this.scroller = scroller;
    this.back = back;
    scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    back.addEventListener('click', () => this.toEnd());
    const grown = new ResizeObserver(() => this.#grown());
    grown.observe(content);
    grown.observe(scroller);
  }

  toEnd() {
    this.following = true;
    this.#grown();
  }

  #distance() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
  }

  // Only a move upwards is the reader's: text that grows makes the end further away as well.
  #scrolled() {
    const top = this.scroller.scrollTop;
    if (this.#distance() <= NEAR) this.following = true;
    else if (top < this.#last) this.following = false;
    this.#last = top;
    this.back.hidden = this.following;
  }

  #grown() {
    if (this.following) this.scroller.scrollTop = this.#last = this.scroller.scrollHeight;
    this.back.hidden = this.following || this.#distance() <= NEAR;
  }
}
