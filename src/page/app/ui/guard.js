// Shows a replacement for a part that cannot be drawn, so that the rest of the page stays.
import { html, Component } from '../lib/ui.js';

export class Guard extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  render() {
    const { error } = this.state;
    return error ? this.props.instead(error) : this.props.children;
  }
}
