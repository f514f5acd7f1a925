/** Icons as drawn paths, 16 × 16, in the colour of the text around them. */

import { svg } from "./dom.js";

/** Each path is stroked; `dots` are filled circles `[x, y, radius]`. */
const ICONS = {
  diverse: {
    paths: ["M8 13V9M8 9 3.5 4.500M8 9l4.5-4.500M8 9V3.5"],
    dots: [
      [3.2, 4, 1.4],
      [8, 2.9, 1.4],
      [12.8, 4, 1.4],
    ],
  },
  template: { paths: ["M3 4.500h10M3 8h10M3 11.500h10"] },
  compressed: { paths: ["M8 1.800v4M8 14.200v-4M6 4.2 8 6.200l2-2M6 11.800l2-2 2 2M3 8h10"] },
  entropy: { paths: ["M1.8 8h3l1-2 1.5 3.500L8.5 8h5.7"], dots: [[14, 8, 0.8]] },
  indeterminate: { paths: ["M2.5 9.500c2-4 4-4 5.5-1.500s3.5 2.5 5.5-1.5"] },
  insufficient: {
    paths: [
      "M5 2.500h6M5 13.500h6M5.5 2.500c0 3 5 4 5 5.500s-5 2.5-5 5.500M10.5 2.500c0 3-5 4-5 5.500s5 2.5 5 5.5",
    ],
  },
  critical: {
    paths: ["M5.3 1.800h5.400l3.5 3.500v5.400l-3.5 3.500H5.300l-3.5-3.500V5.300zM8 4.800v4"],
    dots: [[8, 11.2, 0.9]],
  },
  warning: { paths: ["M8 2 14.5 13.500h-13zM8 6.300v3.4"], dots: [[8, 11.5, 0.85]] },
  info: {
    paths: ["M8 1.800a6.2 6.2 0 1 1 0 12.400A6.2 6.2 0 0 1 8 1.800zM8 7.200v4"],
    dots: [[8, 4.9, 0.9]],
  },
  resolved: { paths: ["M3 8.500l3.2 3.200L13 4.8"] },
  open: { paths: ["M4 11.500V7.500a4 4 0 0 1 8 0v4l1.200 1.500H2.800zM6.500 14.800h3"] },
  seen: {
    paths: [
      "M1.500 8C3.500 4.700 5.500 3.300 8 3.300s4.500 1.400 6.500 4.700c-2 3.300-4 4.700-6.500 4.700S3.500 11.300 1.500 8z",
    ],
    dots: [[8, 8, 1.8]],
  },
  running: { paths: ["M5.500 3.500l6.500 4.500-6.500 4.500z"] },
  idle: { paths: ["M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM6.500 6v4M9.500 6v4"] },
  stalled: { paths: ["M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 4.800V8l2.300 1.600"] },
  crashed: { paths: ["M1.500 8.500h3l1.500-4 2 6.500 1.500-3M10.500 6l4 4M14.500 6l-4 4"] },
  failed: { paths: ["M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM5.800 5.800l4.400 4.400M10.200 5.800l-4.400 4.400"] },
  stopping: { paths: ["M4 4h8v8H4z"] },
  disk: { paths: ["M2.500 4h11v8h-11zM2.500 9h11"], dots: [[11, 10.6, 0.7]] },
  resume: { paths: ["M3.500 8a4.500 4.500 0 1 0 1.400-3.300M4.500 2v3h3"] },
  light: {
    paths: [
      "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1v1.500M8 13.500V15M1 8h1.500M13.5 8H15M3 3l1.1 1.100M11.9 11.9 13 13M13 3l-1.1 1.100M4.1 11.9 3 13",
    ],
  },
  dark: { paths: ["M13.5 9.500A6 6 0 1 1 6.5 2.500a4.8 4.8 0 0 0 7 7z"] },
  compare: { paths: ["M2 12.500l3.5-6 3 3.500L14 3M2 4l4 8 4-3.5 4 3"] },
  copy: { paths: ["M5.5 5.500h8v8h-8zM10.5 5.500v-3h-8v8h3"] },
  download: { paths: ["M8 2v8M4.500 6.800 8 10.300l3.500-3.500M2.500 13.500h11"] },
  more: {
    paths: [],
    dots: [
      [3, 8, 1.3],
      [8, 8, 1.3],
      [13, 8, 1.3],
    ],
  },
  full: { paths: ["M2.500 6V2.500H6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10"] },
  picture: { paths: ["M2 3h12v10H2zM2 11l3.500-3.500 3 3L11 8l3 3"], dots: [[5.500, 6, 0.9]] },
  table: { paths: ["M2 3h12v10H2zM2 6.500h12M2 9.800h12M6.500 3v10"] },
  link: {
    paths: ["M6.500 9.500l3-3M7 4.500l1.500-1.500a3 3 0 0 1 4.500 4.500L11.500 9M9 11.500 7.500 13A3 3 0 0 1 3 8.500L4.500 7"],
  },
  zoomOut: { paths: ["M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9zM10.300 10.300 14 14M5 7h4"] },
  play: { paths: ["M5 3l7.500 5L5 13z"] },
  pause: { paths: ["M5 3v10M11 3v10"] },
  newest: { paths: ["M3 3l6 5-6 5zM12.500 3v10"] },
  open_book: { paths: ["M8 4C6.500 3 4.500 2.800 2 3v9.500c2.500-.2 4.500 0 6 1 1.500-1 3.500-1.200 6-1V3c-2.500-.2-4.500 0-6 1zM8 4v9.500"] },
  previous: { paths: ["M10 3.500 5.500 8l4.500 4.500"] },
  person: { paths: ["M8 2.500a2.700 2.700 0 1 1 0 5.400 2.700 2.700 0 0 1 0-5.400zM2.800 13.500c.6-2.700 2.600-4 5.200-4s4.600 1.300 5.200 4"] },
  next: { paths: ["M6 3.500 10.500 8 6 12.500"] },
  edit: { paths: ["M3 13l.7-2.800 7.300-7.300 2.100 2.100L5.800 12.300zM9.600 4.300l2.100 2.100"] },
  note: { paths: ["M3 2.500h10v8l-3 3H3zM13 10.500h-3v3M5.500 5.500h5M5.500 8h3"] },
  close: { paths: ["M4 4l8 8M12 4l-8 8"] },
};

/** An icon beside text: hidden from assistive technology, which reads the text. */
export function icon(name, size = 16) {
  const { paths, dots = [] } = ICONS[name];
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", width: size, height: size, "aria-hidden": "true" },
    paths.map((d) => svg("path", { d })),
    dots.map(([cx, cy, r]) => svg("circle", { cx, cy, r, class: "icon-dot" })),
  );
}

/** The product's mark: a quadrant and the way down through it. */
export function logo() {
  return svg(
    "svg",
    { class: "logo", viewBox: "0 0 24 24", width: 22, height: 22, "aria-hidden": "true" },
    svg("path", { class: "logo-axes", d: "M12 3v18M3 12h18" }),
    svg("path", { class: "logo-path", d: "M14.5 5c4 1.5 5 5 2.5 8s-1 5.5 1.5 6.5" }),
    svg("circle", { class: "logo-end", cx: 19, cy: 19.5, r: 2.4 }),
  );
}
