/** What the page finds in its window, and what it leaves on its elements. */
interface Window {
  Plotly: any;
}
