"use strict";
// Marks of the vendors of social login.
const vendors = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  // Marks of the vendors in one path or more, each with its colour.
  const LOGOS = /** @type {Record<string, string[][]>} */ ({
    GOOGLE: [
      ["#4285f4", "M23.5 12.3c0-.9-.1-1.5-.3-2.2H12v4.1h6.6c-.1 1.1-.8 2.7-2.4 3.8l3.7 2.8c2.3-2.1 3.6-5.1 3.6-8.5z"],
      [
        "#34a853",
        "M12 24c3.2 0 6-1.1 7.9-2.9l-3.7-2.8c-1 .7-2.4 1.2-4.2 1.2-3.2 0-5.9-2.1-6.8-5l-3.9 3C3.3 21.3 7.3 24 12 24z",
      ],
      ["#fbbc05", "M5.2 14.5a7.3 7.3 0 0 1 0-4.9l-3.9-3a12 12 0 0 0 0 10.9z"],
      [
        "#ea4335",
        "M12 4.7c2.3 0 3.8 1 4.7 1.8l3.4-3.3C18 1.2 15.2 0 12 0 7.3 0 3.3 2.7 1.3 6.6l3.9 3c1-2.9 3.6-4.9 6.8-4.9z",
      ],
    ],
    APPLE: [
      [
        "currentColor",
        "M17.5 12.8c0-2.6 2.1-3.8 2.2-3.9-1.2-1.8-3.1-2-3.7-2-1.6-.2-3.1.9-3.9.9s-2-.9-3.3-.9c-1.7 0-3.3 1-4.2 2.5-1.8 3.1-.5 7.7 1.3 10.2.9 1.2 1.9 2.6 3.2 2.5s1.8-.8 3.3-.8 2 .8 3.4.8 2.3-1.2 3.1-2.4c1-1.4 1.4-2.8 1.4-2.8s-2.7-1.1-2.8-4.1zM14.9 5.2c.7-.9 1.2-2 1.1-3.2-1 0-2.3.7-3 1.5-.7.8-1.3 2-1.1 3.1 1.1.1 2.3-.6 3-1.4z",
      ],
    ],
    GITHUB: [
      [
        "currentColor",
        "M12 .5a12 12 0 0 0-3.8 23.4c.6.1.8-.3.8-.6v-2c-3.3.7-4-1.6-4-1.6-.5-1.4-1.3-1.8-1.3-1.8-1.1-.7.1-.7.1-.7 1.2.1 1.8 1.2 1.8 1.2 1.1 1.8 2.8 1.3 3.5 1 .1-.8.4-1.3.8-1.6-2.7-.3-5.5-1.3-5.5-5.9 0-1.3.5-2.4 1.2-3.2-.1-.3-.5-1.5.1-3.2 0 0 1-.3 3.3 1.2a11.5 11.5 0 0 1 6 0c2.3-1.5 3.3-1.2 3.3-1.2.7 1.7.2 2.9.1 3.2.8.8 1.2 1.9 1.2 3.2 0 4.6-2.8 5.6-5.5 5.9.4.4.8 1.1.8 2.2v3.3c0 .3.2.7.8.6A12 12 0 0 0 12 .5z",
      ],
    ],
    KAKAO: [
      [
        "#fee500",
        "M12 1C5.4 1 0 5.2 0 10.4c0 3.4 2.3 6.3 5.7 8l-1.4 5.3c-.1.5.4.8.8.6l6.2-4.1.7.1c6.6 0 12-4.2 12-9.4S18.6 1 12 1z",
      ],
    ],
    NAVER: [["#03c75a", "M16 12.9 7.7 1H1v22h7V11.1L16.3 23H23V1h-7z"]],
    FACEBOOK: [
      [
        "#1877f2",
        "M24 12a12 12 0 1 0-13.9 11.9v-8.4H7.1V12h3V9.4c0-3 1.8-4.7 4.5-4.7 1.3 0 2.7.2 2.7.2v3h-1.5c-1.5 0-2 .9-2 1.9V12h3.3l-.5 3.5h-2.8v8.4A12 12 0 0 0 24 12z",
      ],
    ],
  });

  /** The mark of a vendor; none of one that is not built in. @param {string} provider @returns {SVGElement[]} */
  function mark(provider) {
    const paths = LOGOS[provider];
    if (!paths) return [];
    const svg = document.createElementNS(SVG, "svg");
    for (const [name, value] of [
      ["viewBox", "0 0 24 24"],
      ["width", "20"],
      ["height", "20"],
      ["aria-hidden", "true"],
    ])
      svg.setAttribute(name, value);
    for (const [colour, line] of paths) {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("fill", colour);
      path.setAttribute("d", line);
      svg.append(path);
    }
    return [svg];
  }

  return { mark };
})();
