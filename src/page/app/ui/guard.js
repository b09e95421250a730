// What cannot be drawn says so in its place, and the rest stays.
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
